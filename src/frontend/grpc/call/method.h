// A row of the table of methods (service/methods.c).
#ifndef NEREID_FRONTEND_GRPC_CALL_METHOD_H
#define NEREID_FRONTEND_GRPC_CALL_METHOD_H

#include "frontend/common/policy/access_policy.h"

#include <stdbool.h>

typedef struct call call;

typedef struct method {
  const char *path; // "/package.Service/Method"
  route_category category;
  // Called when the request message is complete; of a streaming method when the call begins.
  void (*handle)(call *c);
  bool streams; // any number of requests and replies
} method;

#endif
