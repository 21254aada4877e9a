// What inferences add to the access log: to the line of their call (call.c), and a line for each
// request of a ModelStreamInfer. Loop threads.
#ifndef NEREID_FRONTEND_GRPC_ACCESS_NOTE_H
#define NEREID_FRONTEND_GRPC_ACCESS_NOTE_H

#include "frontend/grpc/transport/status.h"

typedef struct access_record access_record;
typedef struct grpc_inference grpc_inference;

// Adds to the line what is known of the inference.
void grpc_access_describe(const grpc_inference *i, access_record *record);

// An inference of a stream is over: it has a line of its own.
void grpc_access_inference(grpc_inference *i, grpc_status status);

#endif
