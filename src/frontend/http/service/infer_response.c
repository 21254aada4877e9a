// SPDX-License-Identifier: Apache-2.0
// Turns the core's response into a reply. Binary outputs are sent from where the model wrote them;
// response and exchange live until the last byte is sent. Loop threads; jobs for long replies.
#include "frontend/http/service/http_inference.h"

#include "frontend/common/json/generate_json.h"
#include "frontend/common/net/compress.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"

#include <inttypes.h>
#include <stdio.h>

#define INFERENCE_HEADER "Inference-Header-Content-Length"

// For each part of a reply libmicrohttpd needs 16 bytes of the connection's memory, and aborts the
// program when there is no room. This many parts fit where the reply's head was before: with
// INFERENCE_HEADER a head has more than 100 bytes.
#define MAX_PARTS 6

// Counts the complete text. False when it cannot be sent.
static bool count_text(exchange *x)
{
  if (!x->text.failed && !exchange_count_text(x))
    exchange_fail_if_body(x, BODY_OVER_BUDGET);
  return !x->text.failed && x->failure == NULL;
}

// Lists the text and the binary outputs, in the arena. NULL when memory is short.
static slice *list_parts(exchange *x, const infer_response_json *json, size_t *count)
{
  slice *parts = arena_allocate_array(&x->arena, json->output_count + 1, sizeof(*parts));
  if (parts == NULL)
    return NULL;
  parts[0] = buffer_view(&x->text);
  *count = 1;
  for (size_t k = 0; k < json->output_count; k++) {
    const response_output_json *o = &json->outputs[k];
    if (o->form == RESPONSE_DATA_BINARY && o->data_size > 0)
      parts[(*count)++] = (slice){o->data, o->data_size};
  }
  return parts;
}

// Appends the other parts to the text, the first part, or compresses all of them in `coding`. If
// memory is short, x->text has failed.
static void join_parts(exchange *x, const slice *parts, size_t count, content_coding coding)
{
  if (coding == CODING_IDENTITY) {
    for (size_t k = 1; k < count; k++)
      buffer_append_slice(&x->text, parts[k]);
    return;
  }
  buffer packed = BUFFER_EMPTY;
  packed.failed = !compress_parts(coding, COMPRESS_FAST, parts, count, &packed);
  buffer_fini(&x->text);
  x->text = packed;
}

// Joins parts when copying costs less: libmicrohttpd sends the head of several parts singly.
static bool are_joined(const slice *parts, size_t count)
{
  size_t size = 0;
  for (size_t k = 0; k < count; k++)
    size += parts[k].size;
  return count > MAX_PARTS || size <= SHORT_REPLY_BYTES;
}

static void reply_gone(void *http_inference_pointer)
{
  http_inference *i = http_inference_pointer;
  inference_delete_response(&i->life, i->sent);
  exchange_unref(i->exchange); // and maybe frees `i`
}

// Sends the text, and the response's outputs from where they are.
static struct MHD_Response *response_of_parts(exchange *x, http_inference *i, const slice *parts,
                                              size_t count)
{
  struct MHD_IoVec *vector = arena_allocate_array(&x->arena, count, sizeof(*vector));
  if (vector == NULL || !count_text(x))
    return NULL;
  size_t size = 0;
  for (size_t k = 0; k < count; k++) {
    slice part = k == 0 ? buffer_view(&x->text) : parts[k];
    vector[k] = (struct MHD_IoVec){.iov_base = part.data, .iov_len = part.size};
    size += part.size;
  }
  exchange_note_body(x, size);
  struct MHD_Response *response =
      MHD_create_response_from_iovec(vector, (unsigned)count, reply_gone, i);
  if (response == NULL)
    return NULL;
  exchange_ref(x);
  if (count > 1)
    i->sent = inference_take_response(&i->life);
  return response;
}

static struct MHD_Response *make_response(exchange *x, http_inference *i,
                                          const infer_response_json *json)
{
  char size[32];
  size_t count, json_size = x->text.size;
  content_coding coding = x->headers.accepts;
  slice *parts = list_parts(x, json, &count);
  if (parts == NULL)
    return NULL;
  bool binary = count > 1;
  if (coding != CODING_IDENTITY || are_joined(parts, count)) {
    join_parts(x, parts, count, coding);
    count = 1;
  }
  struct MHD_Response *response = response_of_parts(x, i, parts, count);
  if (coding != CODING_IDENTITY)
    response = response_with(response, MHD_HTTP_HEADER_CONTENT_ENCODING,
                             coding == CODING_GZIP ? "gzip" : "deflate");
  if (!binary)
    return response_with(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
  snprintf(size, sizeof(size), "%zu", json_size);
  response = response_with(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/octet-stream");
  return response_with(response, INFERENCE_HEADER, size);
}

void infer_reply(exchange *x, http_inference *i)
{
  infer_response_json json = {0};
  if (i->life.response_count != 1)
    exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "expected a single response, got %u",
                  i->life.response_count);
  else if (!exchange_fail_if_error(
               x, infer_tensors_read(&i->life.tensors, i->life.response, &x->arena, &json)) &&
           !exchange_fail_if_error(
               x, infer_response_json_write(&json, &http_server_of(x->http)->parallel, &x->text)))
    exchange_reply_with(x, make_response(x, i, &json));
}

void generate_reply(exchange *x, http_inference *i)
{
  infer_response_json json = {0};
  if (i->life.response_count != 1)
    exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR,
                  "generate expects model to produce exactly 1 response, use generate stream for "
                  "model that generates various number of responses");
  else if (!exchange_fail_if_error(
               x, infer_tensors_read(&i->life.tensors, i->life.response, &x->arena, &json)) &&
           !exchange_fail_if_error(x, generate_response_json_write(&json, &x->arena, &x->text)))
    exchange_reply_with(
        x, count_text(x) ? response_with_load(response_of_text(x, "application/json"), x) : NULL);
}
