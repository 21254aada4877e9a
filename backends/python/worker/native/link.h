// SPDX-License-Identifier: Apache-2.0
// The link to the host: how the channel is had, the thread that ends this process when the host is
// gone, and the module's functions for work, answers, calls and replies.
#ifndef NEREID_LINK_H
#define NEREID_LINK_H

#include "native.h"

// The functions, for the module's table, and the type of messages that are ready to be sent.
extern PyMethodDef link_functions[];
PyObject *link_message_type(void);

#endif
