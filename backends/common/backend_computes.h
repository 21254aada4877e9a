// A promise to nereid that other servers do not ask for: this backend's executions compute and
// return. They wait for no other process, request or device that may be slow without limit, so that
// the server may run a fast model's execution on the thread that received the request, where a wait
// would hold up other clients.
#ifndef NEREID_BACKEND_COMPUTES_H
#define NEREID_BACKEND_COMPUTES_H

#include "triton/core/tritonbackend.h"

// Looked up by name; its value does not matter.
TRITONBACKEND_ISPEC extern const char NEREID_BackendComputes;

#endif
