// Making responses: creation and headers fail together.
#include "frontend/http/exchange/response.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "frontend/common/observe/load_metrics.h"

#include <stdlib.h>
#include <string.h>

struct MHD_Response *response_with(struct MHD_Response *response_owned, const char *name,
                                   const char *value)
{
  if (response_owned == NULL || MHD_add_response_header(response_owned, name, value) == MHD_YES)
    return response_owned;
  MHD_destroy_response(response_owned);
  return NULL;
}

struct MHD_Response *response_of(const char *text, size_t size, const char *content_type,
                                 void (*release)(void *context), void *context)
{
  struct MHD_Response *response =
      MHD_create_response_from_buffer_with_free_callback_cls(size, (void *)text, release, context);
  if (response == NULL && release != NULL)
    release(context);
  return response_with(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
}

struct MHD_Response *response_of_json_copy(const char *json)
{
  struct MHD_Response *response =
      MHD_create_response_from_buffer(strlen(json), (void *)json, MHD_RESPMEM_MUST_COPY);
  return response_with(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
}

struct MHD_Response *response_with_load(struct MHD_Response *response_owned,
                                        TRITONSERVER_Server *server, struct MHD_Connection *mhd)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  const char *format =
      MHD_lookup_connection_value(mhd, MHD_HEADER_KIND, LOAD_METRICS_REQUEST_HEADER);
  if (format == NULL || !load_metrics_write(server, slice_of(format), &text))
    return response_owned;
  AUTO_FREE char *value = buffer_take_text(&text);
  return value == NULL ? response_owned
                       : response_with(response_owned, LOAD_METRICS_REPLY_HEADER, value);
}
