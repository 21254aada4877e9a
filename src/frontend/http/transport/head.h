// SPDX-License-Identifier: Apache-2.0
// What libmicrohttpd takes in the head of a request and HTTP does not: two servers on one way could
// read such a request differently, one request as two among others. Loop threads, once for each
// request.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_HEAD_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_HEAD_H

#include "frontend/http/transport/headers.h"

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#define HEAD_MAX_TARGET_BYTES 8192

typedef enum target_fault {
  TARGET_GOOD,
  TARGET_TOO_LONG,
  TARGET_MALFORMED, // a byte that is none of a URI's
} target_fault;

// Judges a request's target, query included, as it was sent; behind its zero stands the version.
target_fault head_check_target(const char *target);

// For MHD_OPTION_UNESCAPE_CALLBACK: leaves a target as it was sent; route_decode decodes what may
// be encoded.
size_t head_leave_encoded(void *context, struct MHD_Connection *mhd, char *text);

// Reads all header fields of a request. A malformed line is a fault of `headers`, and so is a
// second Host. None is as good as one: nothing here depends on the name of the server.
void head_read_fields(struct MHD_Connection *mhd, request_headers *headers);

#endif
