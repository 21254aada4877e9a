// From the core's response to a reply. Binary outputs are sent from where the model wrote them; the
// response and the exchange live until the last byte is gone. Loop threads.
#include "frontend/http/service/http_inference.h"

#include "base/buffer.h"
#include "frontend/common/json/generate_json.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/response.h"
#include "frontend/http/exchange/server.h"
#include "frontend/http/transport/compress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INFERENCE_HEADER "Inference-Header-Content-Length"

// libmicrohttpd keeps 16 bytes for each part of a reply in the memory of the connection, which the
// request's head may have taken. When there is no room for them it ends the program. There is
// where the reply's head was just before: with an INFERENCE_HEADER that has more than 100 bytes.
#define MAX_PARTS 6

// A reply while it is made. Lists are in the exchange's arena.
typedef struct infer_reply_parts {
  infer_response_json json;
  buffer text;             // the JSON part
  struct MHD_IoVec *parts; // the JSON part and the binary outputs
  size_t part_count;
  bool binary; // bytes follow the text
} infer_reply_parts;

// What must outlive the reply; in the exchange's arena.
typedef struct reply_memory {
  exchange *exchange; // referenced
  buffer text;
  size_t reserved;                          // from the budget
  TRITONSERVER_InferenceResponse *response; // owned
} reply_memory;

// Puts the JSON part and the binary outputs in a row. False when memory is short.
static bool list_parts(exchange *x, infer_reply_parts *reply)
{
  reply->parts =
      arena_allocate_array(&x->arena, reply->json.output_count + 1, sizeof(*reply->parts));
  if (reply->parts == NULL)
    return false;
  reply->parts[reply->part_count++] =
      (struct MHD_IoVec){.iov_base = reply->text.data, .iov_len = reply->text.size};
  for (size_t k = 0; k < reply->json.output_count; k++) {
    const response_output_json *o = &reply->json.outputs[k];
    if (o->form != RESPONSE_DATA_BINARY || o->data_size == 0)
      continue;
    reply->binary = true;
    reply->parts[reply->part_count++] =
        (struct MHD_IoVec){.iov_base = o->data, .iov_len = o->data_size};
  }
  return true;
}

static void release_memory(void *pointer)
{
  reply_memory *memory = pointer;
  exchange *x = memory->exchange;
  buffer_fini(&memory->text);
  if (memory->reserved > 0)
    budget_give_back(&x->http->budget, memory->reserved);
  inference_delete_response(x->inference, memory->response);
  exchange_unref(x); // and with it `memory`
}

// What a reply sends that was written for it, and counts; NULL when it may not: the exchange has
// failed. `text` is moved.
static reply_memory *hold(exchange *x, buffer *text)
{
  reply_memory *memory = arena_allocate_array(&x->arena, 1, sizeof(*memory));
  size_t reserved = text->size < BUDGET_MIN_BYTES ? 0 : text->size;
  if (memory == NULL)
    return NULL;
  if (reserved > 0 && !budget_take_work(&x->http->budget, reserved)) {
    exchange_fail_if_body(x, BODY_OVER_BUDGET);
    return NULL;
  }
  *memory = (reply_memory){.exchange = x, .text = *text, .reserved = reserved};
  *text = BUFFER_EMPTY;
  x->reply_bytes = memory->text.size;
  exchange_ref(x);
  return memory;
}

static struct MHD_Response *reply_with_text(reply_memory *memory_owned)
{
  struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
      memory_owned->text.size, memory_owned->text.data, release_memory, memory_owned);
  if (response == NULL)
    release_memory(memory_owned);
  return response;
}

// Puts the parts into one. What memory cannot be had for is seen in reply->text.
static void join_parts(infer_reply_parts *reply)
{
  for (size_t k = 1; k < reply->part_count; k++)
    buffer_append_slice(&reply->text, (slice){reply->parts[k].iov_base, reply->parts[k].iov_len});
  reply->part_count = 1;
}

// Sends the parts from where they are, but for a large number of them.
static struct MHD_Response *reply_from_parts(exchange *x, http_inference *i,
                                             infer_reply_parts *reply)
{
  if (reply->part_count > MAX_PARTS)
    join_parts(reply);
  reply_memory *memory = reply->text.failed ? NULL : hold(x, &reply->text);
  if (memory == NULL || reply->part_count == 1)
    return memory == NULL ? NULL : reply_with_text(memory);
  x->reply_bytes = 0;
  for (size_t k = 0; k < reply->part_count; k++)
    x->reply_bytes += reply->parts[k].iov_len;
  struct MHD_Response *response = MHD_create_response_from_iovec(
      reply->parts, (unsigned)reply->part_count, release_memory, memory);
  if (response == NULL) {
    release_memory(memory);
  } else if (reply->binary) {
    memory->response = inference_take_response(&i->life);
  }
  return response;
}

static struct MHD_Response *reply_compressed(exchange *x, const infer_reply_parts *reply)
{
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  slice *parts = arena_allocate_array(&x->arena, reply->part_count, sizeof(*parts));
  if (parts == NULL)
    return NULL;
  for (size_t k = 0; k < reply->part_count; k++)
    parts[k] = (slice){reply->parts[k].iov_base, reply->parts[k].iov_len};
  if (!compress_parts(x->headers.accepts, parts, reply->part_count, &packed))
    return NULL;
  reply_memory *memory = hold(x, &packed);
  return memory == NULL ? NULL
                        : response_with(reply_with_text(memory), MHD_HTTP_HEADER_CONTENT_ENCODING,
                                        x->headers.accepts == CODING_GZIP ? "gzip" : "deflate");
}

static struct MHD_Response *with_headers(struct MHD_Response *response, bool binary,
                                         size_t json_size)
{
  char size[32];
  if (!binary)
    return response_with(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
  snprintf(size, sizeof(size), "%zu", json_size);
  response = response_with(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/octet-stream");
  return response_with(response, INFERENCE_HEADER, size);
}

void infer_reply(exchange *x, http_inference *i)
{
  infer_reply_parts reply = {0};
  if (i->life.response_count != 1) {
    exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "expected a single response, got %u",
                  i->life.response_count);
    return;
  }
  if (exchange_fail_if_error(
          x, infer_tensors_read(&i->life.tensors, i->life.response, &x->arena, &reply.json)))
    return;
  if (!exchange_fail_if_error(x, infer_response_json_write(&reply.json,
                                                           &http_server_of(x->http)->parallel,
                                                           &reply.text))) {
    size_t json_size = reply.text.size;
    bool compress = x->headers.accepts == CODING_GZIP || x->headers.accepts == CODING_DEFLATE;
    struct MHD_Response *response = !list_parts(x, &reply) ? NULL
                                    : compress             ? reply_compressed(x, &reply)
                                                           : reply_from_parts(x, i, &reply);
    exchange_reply_with(x, with_headers(response, reply.binary, json_size));
  }
  buffer_fini(&reply.text);
}

void generate_reply(exchange *x, http_inference *i)
{
  infer_response_json json = {0};
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  if (i->life.response_count != 1) {
    exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR,
                  "generate expects model to produce exactly 1 response, use generate stream for "
                  "model that generates various number of responses");
    return;
  }
  if (exchange_fail_if_error(
          x, infer_tensors_read(&i->life.tensors, i->life.response, &x->arena, &json)) ||
      exchange_fail_if_error(x, generate_response_json_write(&json, &x->arena, &text)))
    return;
  reply_memory *memory = hold(x, &text);
  struct MHD_Response *response =
      with_headers(memory == NULL ? NULL : reply_with_text(memory), false, 0);
  exchange_reply_with(x, response_with_load(response, x->http->server, x->mhd));
}
