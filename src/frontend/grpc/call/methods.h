// The one table of methods: what the gRPC port answers. Pure, any thread.
#ifndef NEREID_FRONTEND_GRPC_METHODS_H
#define NEREID_FRONTEND_GRPC_METHODS_H

#include "base/slice.h"
#include "frontend/common/policy/restricted.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct call call;

typedef struct method {
  const char *path; // "/package.Service/Method"
  route_category category;
  // Called when the request message is complete; of a streaming method when the call begins.
  void (*handle)(call *c);
  bool streams; // any number of requests and replies
} method;

// The method of a call's :path, or NULL.
const method *methods_find(slice path);

// All rows; for the fuzz target of whole sessions.
const method *methods_all(size_t *count);

#endif
