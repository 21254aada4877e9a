// SPDX-License-Identifier: Apache-2.0
// DLPack, the exchange of tensors with other frameworks: capsules of version 0.x ("dltensor") and
// 1.x ("dltensor_versioned"), on the CPU and on CUDA's devices.
#ifndef NEREID_DLPACK_H
#define NEREID_DLPACK_H

#include "native.h"

// The Buffer whose memory `buffer` shares, borrowed, when `buffer` was made from a capsule that
// this worker had given out; else NULL.
PyObject *dlpack_behind(PyObject *buffer);

extern PyMethodDef dlpack_functions[];

#endif
