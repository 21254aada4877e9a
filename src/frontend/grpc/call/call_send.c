// SPDX-License-Identifier: Apache-2.0
// The parts of a call that nghttp2 asks for: header, as much of the queue as fits, status. Loop
// thread.
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/transport/connection.h"

#include <stdio.h>
#include <string.h>

#define IGNORED(x) (void)(x)

// The status as trailing fields. `to` has room for 3.
static size_t status_fields(call *c, nghttp2_nv *to, char *number, size_t number_size)
{
  static const char status[] = "grpc-status", text[] = "grpc-message";
  size_t count = 0;
  int size = snprintf(number, number_size, "%d", (int)c->replies.status);
  to[count++] = (nghttp2_nv){(uint8_t *)status, (uint8_t *)number, sizeof(status) - 1, (size_t)size,
                             NGHTTP2_NV_FLAG_NO_COPY_NAME};
  if (c->replies.failure != NULL)
    to[count++] = (nghttp2_nv){(uint8_t *)text, (uint8_t *)c->replies.failure, sizeof(text) - 1,
                               strlen(c->replies.failure),
                               NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
  if (c->trailer_value != NULL)
    to[count++] = (nghttp2_nv){(uint8_t *)c->trailer_name, (uint8_t *)c->trailer_value,
                               strlen(c->trailer_name), strlen(c->trailer_value),
                               NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
  return count;
}

// Tells nghttp2 how many bytes there are; send_data moves them.
static ssize_t measure_data(nghttp2_session *session, int32_t stream_id, uint8_t *buf,
                            size_t length, uint32_t *flags, nghttp2_data_source *source,
                            void *pointer)
{
  IGNORED(buf);
  IGNORED(pointer);
  call *c = call_of_stream(source->ptr);
  size_t size = c->replies.unsent_bytes < length ? c->replies.unsent_bytes : length;
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (size == 0 && !call_is_ended(c))
    return NGHTTP2_ERR_DEFERRED;
  if (size == c->replies.unsent_bytes && call_is_ended(c)) {
    nghttp2_nv fields[3];
    char number[12];
    size_t count = status_fields(c, fields, number, sizeof(number));
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (nghttp2_submit_trailer(session, stream_id, fields, count) != 0)
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  return (ssize_t)size;
}

#define NAME_AND_TEXT(name, text)                                                                  \
  {                                                                                                \
    (uint8_t *)(name), (uint8_t *)(text), sizeof(name) - 1, sizeof(text) - 1,                      \
        NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                               \
  }

static const nghttp2_nv ok_status = NAME_AND_TEXT(":status", "200");
static const nghttp2_nv content_type = NAME_AND_TEXT("content-type", "application/grpc");
static const nghttp2_nv codings = NAME_AND_TEXT("grpc-accept-encoding", "identity, deflate, gzip");
static const nghttp2_nv packed_gzip = NAME_AND_TEXT("grpc-encoding", "gzip");
static const nghttp2_nv packed_deflate = NAME_AND_TEXT("grpc-encoding", "deflate");
static const nghttp2_nv unsupported_status = NAME_AND_TEXT(":status", "415");
static const nghttp2_nv plain_text = NAME_AND_TEXT("content-type", "text/plain");
static const char unsupported_text[] =
    "This port serves gRPC: POST, content-type application/grpc\n";

static ssize_t read_unsupported_text(nghttp2_session *session, int32_t stream_id, uint8_t *buf,
                                     size_t length, uint32_t *flags, nghttp2_data_source *source,
                                     void *pointer)
{
  IGNORED(session);
  IGNORED(stream_id);
  IGNORED(pointer);
  call *c = call_of_stream(source->ptr);
  size_t left = sizeof(unsupported_text) - 1 - c->replies.foreign_sent;
  size_t size = left < length ? left : length;
  memcpy(buf, unsupported_text + c->replies.foreign_sent, size);
  c->replies.foreign_sent += size;
  if (size == left)
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  return (ssize_t)size;
}

// Answers a client that does not speak gRPC with HTTP's status and a line of text.
static bool submit_unsupported(call *c)
{
  const nghttp2_nv fields[] = {unsupported_status, plain_text};
  nghttp2_data_provider data = {.source.ptr = &c->stream, .read_callback = read_unsupported_text};
  return nghttp2_submit_response(c->stream.connection->session, c->stream.id, fields, 2, &data) ==
         0;
}

bool call_submit_status(call *c)
{
  if (call_is_foreign(c))
    return submit_unsupported(c);
  nghttp2_nv fields[6] = {ok_status, content_type};
  char number[12];
  size_t count = 2;
  if (c->coding == CODING_UNKNOWN)
    fields[count++] = codings;
  count += status_fields(c, fields + count, number, sizeof(number));
  return nghttp2_submit_response(c->stream.connection->session, c->stream.id, fields, count,
                                 NULL) == 0;
}

bool call_submit_header(call *c)
{
  nghttp2_nv fields[4] = {ok_status, content_type};
  size_t count = 2;
  if (c->reply_coding == CODING_GZIP)
    fields[count++] = packed_gzip;
  else if (c->reply_coding == CODING_DEFLATE)
    fields[count++] = packed_deflate;
  nghttp2_data_provider data = {.source.ptr = &c->stream, .read_callback = measure_data};
  return nghttp2_submit_response(c->stream.connection->session, c->stream.id, fields, count,
                                 &data) == 0;
}
