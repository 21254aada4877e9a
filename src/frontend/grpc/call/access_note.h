// Lines of the access log for calls: one for each call, and for each request of a ModelStreamInfer.
// Without an access log all of it is one test. Loop threads.
#ifndef NEREID_FRONTEND_GRPC_ACCESS_NOTE_H
#define NEREID_FRONTEND_GRPC_ACCESS_NOTE_H

#include "frontend/grpc/transport/status.h"

typedef struct call call;
typedef struct grpc_inference grpc_inference;

// The inference of a call is over, or one of a stream, which has a line of its own.
void grpc_access_inference(grpc_inference *i, grpc_status status);

// The call is over.
void grpc_access_call(call *c);

#endif
