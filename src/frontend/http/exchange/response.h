// libmicrohttpd's responses, made whole or not at all: a reply that lacks a header for want of
// memory would be read wrongly.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_RESPONSE_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_RESPONSE_H

#include "triton/core/tritonserver.h"

#include <microhttpd.h>
#include <stddef.h>

// Adds a header. NULL when there is no response or memory is short; the response is gone then.
struct MHD_Response *response_with(struct MHD_Response *response_owned, const char *name,
                                   const char *value);

// A response that is sent from `text`; release(context) is called when it is gone, or at once when
// there is no memory for it. Returns NULL then.
struct MHD_Response *response_of(const char *text, size_t size, const char *content_type,
                                 void (*release)(void *context), void *context);

// A response with a copy of `json`. NULL when memory is short.
struct MHD_Response *response_of_json_copy(const char *json);

// Adds the load report that the request's fields ask for, if there is one.
struct MHD_Response *response_with_load(struct MHD_Response *response_owned,
                                        TRITONSERVER_Server *server, struct MHD_Connection *mhd);

#endif
