// SPDX-License-Identifier: Apache-2.0
// Copies libmicrohttpd's fields to request_headers.
#include "frontend/http/transport/head.h"

#include <string.h>

static enum MHD_Result take_field(void *headers, enum MHD_ValueKind kind, const char *name,
                                  size_t name_size, const char *value, size_t value_size)
{
  (void)kind;
  headers_add(headers, (slice){name, name_size}, (slice){value == NULL ? "" : value, value_size});
  return MHD_YES;
}

void head_read_fields(struct MHD_Connection *mhd, request_headers *headers)
{
  MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, take_field, headers);
}

size_t head_leave_encoded(void *context, struct MHD_Connection *mhd, char *text)
{
  (void)context;
  (void)mhd;
  return strlen(text);
}
