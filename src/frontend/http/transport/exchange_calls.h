// SPDX-License-Identifier: Apache-2.0
// What the loops and the watcher call of the layer above, which has the exchanges: given at the
// start, so that nothing here knows what an exchange is.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_EXCHANGE_CALLS_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_EXCHANGE_CALLS_H

#include "nereid/nereid.h"

#include <microhttpd.h>
#include <stdbool.h>

typedef struct connection connection;
typedef struct exchange exchange;

typedef struct exchange_calls {
  MHD_AccessHandlerCallback handle;       // the context is the loop
  MHD_RequestCompletedCallback completed; // the same
  // A request is malformed, or libmicrohttpd is about to send a page of its own with `status`:
  // refuses it. False when the reply is one that was made here.
  bool (*refuse)(connection *c, unsigned status);
  // Any thread.
  void (*ref)(exchange *x);
  void (*unref)(exchange *x);
  void (*cancel)(exchange *x); // its client has left
  NEREID_LogSubject (*subject)(const exchange *x);
} exchange_calls;

#endif
