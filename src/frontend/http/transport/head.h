// SPDX-License-Identifier: Apache-2.0
// What libmicrohttpd hands over of a request's head. Loop threads, once for each request.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_HEAD_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_HEAD_H

#include "frontend/http/transport/headers.h"

#include <microhttpd.h>
#include <stddef.h>

// For MHD_OPTION_UNESCAPE_CALLBACK: leaves a target as it was sent; route_decode decodes what may
// be encoded.
size_t head_leave_encoded(void *context, struct MHD_Connection *mhd, char *text);

// Reads all header fields of a request.
void head_read_fields(struct MHD_Connection *mhd, request_headers *headers);

#endif
