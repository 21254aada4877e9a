// SPDX-License-Identifier: Apache-2.0
// Reads a request's head from libmicrohttpd. Loop threads, once for each request.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_HEAD_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_HEAD_H

#include "frontend/http/transport/headers.h"

#include <microhttpd.h>
#include <stddef.h>

// For MHD_OPTION_UNESCAPE_CALLBACK: leaves the target encoded; route_decode decodes only the parts
// that may be encoded.
size_t head_leave_encoded(void *context, struct MHD_Connection *mhd, char *text);

// Reads all header fields of a request.
void head_read_fields(struct MHD_Connection *mhd, request_headers *headers);

#endif
