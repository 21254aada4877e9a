// From the core's response to a reply. Binary outputs are sent from where the model wrote them; the
// response and the exchange live until the last byte is gone. Loop threads.
#include "frontend/http/infer.h"

#include "base/buffer.h"
#include "frontend/http/compress.h"
#include "frontend/http/exchange.h"
#include "frontend/http/log.h"
#include "frontend/http/response.h"
#include "frontend/http/server.h"
#include "frontend/protocol/classification.h"
#include "frontend/protocol/generate_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INFERENCE_HEADER "Inference-Header-Content-Length"

// A reply while it is made. Lists are in the exchange's arena.
typedef struct infer_reply_parts {
  infer_response_json json;
  buffer text;             // the JSON part
  struct MHD_IoVec *parts; // the JSON part and the binary outputs
  size_t part_count;
  bool binary; // there are binary outputs
} infer_reply_parts;

// What must outlive the reply; in the exchange's arena.
typedef struct reply_memory {
  exchange *exchange; // referenced
  buffer text;
  size_t reserved;                          // from the budget
  TRITONSERVER_InferenceResponse *response; // owned
} reply_memory;

static TRITONSERVER_Error *no_memory(void)
{
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "out of memory");
}

static TRITONSERVER_Error *read_parameters(TRITONSERVER_InferenceResponse *response, arena *a,
                                           infer_response_json *json)
{
  uint32_t count;
  TRITONSERVER_Error *e = TRITONSERVER_InferenceResponseParameterCount(response, &count);
  if (e != NULL)
    return e;
  json_parameter *parameters = arena_allocate_array(a, count + 1, sizeof(*parameters));
  if (parameters == NULL)
    return no_memory();
  for (uint32_t k = 0; k < count; k++) {
    json_parameter *p = &parameters[k];
    const void *value;
    e = TRITONSERVER_InferenceResponseParameter(response, k, &p->name, &p->type, &value);
    if (e != NULL)
      return e;
    if (p->type == TRITONSERVER_PARAMETER_INT)
      p->value.integer = *(const int64_t *)value;
    else if (p->type == TRITONSERVER_PARAMETER_BOOL)
      p->value.boolean = *(const bool *)value;
    else if (p->type == TRITONSERVER_PARAMETER_DOUBLE)
      p->value.number = *(const double *)value;
    else
      p->value.string = value;
  }
  json->parameters = parameters;
  json->parameter_count = count;
  return NULL;
}

static TRITONSERVER_Error *over_budget(void)
{
  return TRITONSERVER_ErrorNew(
      TRITONSERVER_ERROR_UNAVAILABLE,
      "the server holds as many bytes of answers as it may, try again later");
}

// Puts the strings in the output's place; they are moved to the arena, where the reply finds them.
static TRITONSERVER_Error *take_classes(exchange *x, const class_strings *strings,
                                        response_output_json *o)
{
  size_t size = strings->elements.size;
  if (size >= BUDGET_LEAST_BYTES && body_reserve_work(&x->body, size) != BODY_OK)
    return over_budget();
  char *data = arena_allocate(&x->arena, size);
  int64_t *shape = arena_allocate_array(&x->arena, strings->shape_count, sizeof(*shape));
  if (data == NULL || shape == NULL)
    return no_memory();
  if (size > 0)
    memcpy(data, strings->elements.data, size);
  memcpy(shape, strings->shape, strings->shape_count * sizeof(*shape));
  o->datatype = TRITONSERVER_TYPE_BYTES;
  o->shape = shape;
  o->shape_count = strings->shape_count;
  o->data = data;
  o->data_size = size;
  return NULL;
}

static TRITONSERVER_Error *classify(exchange *x, TRITONSERVER_InferenceResponse *response,
                                    uint32_t index, uint64_t class_count, response_output_json *o)
{
  const class_scores scores = {.response = response,
                               .index = index,
                               .datatype = o->datatype,
                               .shape = o->shape,
                               .shape_count = o->shape_count,
                               .has_rows = x->inference->has_rows,
                               .data = o->data,
                               .size = o->data_size};
  class_strings strings = {0};
  TRITONSERVER_Error *e = classification_make(&scores, class_count, &strings);
  if (e == NULL)
    e = take_classes(x, &strings, o);
  buffer_fini(&strings.elements);
  return e;
}

static TRITONSERVER_Error *read_output(TRITONSERVER_InferenceResponse *response, uint32_t index,
                                       response_output_json *o)
{
  uint64_t dim_count;
  TRITONSERVER_MemoryType memory_type;
  int64_t memory_id;
  void *tag;
  TRITONSERVER_Error *e = TRITONSERVER_InferenceResponseOutput(
      response, index, &o->name, &o->datatype, &o->shape, &dim_count, &o->data, &o->data_size,
      &memory_type, &memory_id, &tag);
  if (e != NULL)
    return e;
  const output_buffer *memory = tag; // NULL when the backend never asked for the buffer
  o->shape_count = dim_count;
  o->form = RESPONSE_DATA_JSON;
  if (memory == NULL)
    return NULL;
  const output_choice *choice = memory->choice;
  o->form = choice->span != NULL ? RESPONSE_DATA_SHARED_MEMORY
            : choice->binary     ? RESPONSE_DATA_BINARY
                                 : RESPONSE_DATA_JSON;
  return choice->classification > 0
             ? classify(memory->exchange, response, index, choice->classification, o)
             : NULL;
}

static TRITONSERVER_Error *read_outputs(TRITONSERVER_InferenceResponse *response, arena *a,
                                        infer_response_json *json)
{
  uint32_t count;
  TRITONSERVER_Error *e = TRITONSERVER_InferenceResponseOutputCount(response, &count);
  if (e != NULL)
    return e;
  response_output_json *outputs = arena_allocate_array(a, count + 1, sizeof(*outputs));
  if (outputs == NULL)
    return no_memory();
  for (uint32_t k = 0; k < count && e == NULL; k++)
    e = read_output(response, k, &outputs[k]);
  json->outputs = outputs;
  json->output_count = count;
  return e;
}

TRITONSERVER_Error *infer_read_response(TRITONSERVER_InferenceResponse *response, arena *a,
                                        infer_response_json *json)
{
  TRITONSERVER_Error *e = TRITONSERVER_InferenceResponseError(response);
  if (e == NULL)
    e = TRITONSERVER_InferenceResponseModel(response, &json->model_name, &json->model_version);
  if (e == NULL)
    e = TRITONSERVER_InferenceResponseId(response, &json->id);
  if (e == NULL)
    e = read_parameters(response, a, json);
  return e == NULL ? read_outputs(response, a, json) : e;
}

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
    if (o->form != RESPONSE_DATA_BINARY)
      continue;
    reply->binary = true;
    if (o->data_size > 0)
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
  if (memory->response != NULL)
    http_log_failure(x, "deleting a response",
                     TRITONSERVER_InferenceResponseDelete(memory->response));
  exchange_unref(x); // and with it `memory`
}

// What a reply sends that was written for it, and counts; NULL when it may not: the exchange has
// failed. `text` is moved.
static reply_memory *hold(exchange *x, buffer *text)
{
  reply_memory *memory = arena_allocate_array(&x->arena, 1, sizeof(*memory));
  size_t reserved = text->size < BUDGET_LEAST_BYTES ? 0 : text->size;
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

// Sends the parts from where they are.
static struct MHD_Response *reply_from_parts(exchange *x, inference *i, infer_reply_parts *reply)
{
  reply_memory *memory = hold(x, &reply->text);
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
    memory->response = i->response; // moved
    i->response = NULL;
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

void infer_reply(exchange *x, inference *i)
{
  infer_reply_parts reply = {0};
  if (i->response_count != 1) {
    exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "expected a single response, got %u",
                  i->response_count);
    return;
  }
  if (!infer_check_shared(x, i) ||
      exchange_fail_if(x, infer_read_response(i->response, &x->arena, &reply.json)))
    return;
  if (!exchange_fail_if_error(
          x, infer_response_json_write(&reply.json, &x->http->parallel, &reply.text))) {
    size_t json_size = reply.text.size;
    bool compress = x->headers.accepts == CODING_GZIP || x->headers.accepts == CODING_DEFLATE;
    struct MHD_Response *response = !list_parts(x, &reply) ? NULL
                                    : compress             ? reply_compressed(x, &reply)
                                                           : reply_from_parts(x, i, &reply);
    exchange_reply_with(x, with_headers(response, reply.binary, json_size));
  }
  buffer_fini(&reply.text);
}

void generate_reply(exchange *x, inference *i)
{
  infer_response_json json = {0};
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  if (i->response_count != 1) {
    exchange_fail(x, MHD_HTTP_INTERNAL_SERVER_ERROR,
                  "generate expects model to produce exactly 1 response, use generate stream for "
                  "model that generates various number of responses");
    return;
  }
  if (exchange_fail_if(x, infer_read_response(i->response, &x->arena, &json)) ||
      exchange_fail_if_error(x, generate_response_json_write(&json, &x->arena, &text)))
    return;
  reply_memory *memory = hold(x, &text);
  struct MHD_Response *response =
      with_headers(memory == NULL ? NULL : reply_with_text(memory), false, 0);
  exchange_reply_with(x, response_with_load(response, x->http->server, x->mhd));
}
