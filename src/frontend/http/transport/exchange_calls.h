// SPDX-License-Identifier: Apache-2.0
// The functions of the layer above (exchanges) that the loops and the watcher call. They are given
// at the start, so that this layer knows nothing of exchanges.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_EXCHANGE_CALLS_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_EXCHANGE_CALLS_H

#include "nereid/nereid.h"

#include <microhttpd.h>
#include <stdbool.h>

typedef struct connection connection;
typedef struct exchange exchange;

typedef struct exchange_calls {
  MHD_AccessHandlerCallback handle;       // the context is the loop
  MHD_RequestCompletedCallback completed; // the context is the loop
  // Refuses a request that is malformed, or that libmicrohttpd is about to answer with its own page
  // and `status`. False when the reply is the server's own, and may be sent.
  bool (*refuse)(connection *c, unsigned status);
  // The rest on any thread.
  void (*ref)(exchange *x);
  void (*unref)(exchange *x);
  void (*cancel)(exchange *x); // the client has left
  NEREID_LogSubject (*subject)(const exchange *x);
} exchange_calls;

#endif
