// DLPack, the exchange of tensors with other frameworks: capsules of version 0.x ("dltensor"), on
// the CPU.
#ifndef NEREID_DLPACK_H
#define NEREID_DLPACK_H

#include "native.h"

extern PyMethodDef dlpack_functions[];

#endif
