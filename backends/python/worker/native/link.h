// SPDX-License-Identifier: Apache-2.0
// The link to the host: the module's functions for work, answers, calls and replies.
#ifndef NEREID_LINK_H
#define NEREID_LINK_H

#include "native.h"

// The functions for the module's table, and the type of prepared messages.
extern PyMethodDef link_functions[];
PyObject *link_message_type(void);

#endif
