// SPDX-License-Identifier: Apache-2.0
// Turns a body into the core's request. Tensors are slices of the body, or of the arena if they
// came as JSON. Loop threads; jobs for long bodies.
#include "frontend/http/service/http_inference.h"

#include "frontend/common/admin/model_admin.h"
#include "frontend/common/json/generate_json.h"
#include "frontend/common/json/request_parameter.h"
#include "frontend/common/policy/header_forward.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"

#include <inttypes.h>
#include <string.h>

#define RAW_INPUT "raw_input" // the core finds the model's input

// The size of the body's JSON part. False when the header is invalid: the exchange has failed.
static bool json_size_of(exchange *x, size_t *size)
{
  const header_number *number = &x->headers.inference_header_length;
  const char *const name = "Inference-Header-Content-Length";
  int text_size = number->text.size < 64 ? (int)number->text.size : 64;
  *size = x->body.size;
  switch (number->state) {
  case NUMBER_ABSENT:
    return true;
  case NUMBER_MALFORMED:
    return exchange_fail(x, MHD_HTTP_BAD_REQUEST, "Unable to parse %s, got: %.*s", name, text_size,
                         number->text.data);
  case NUMBER_OUT_OF_RANGE:
    return exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                         "inference header size should be in range (0, %zu), got: %.*s",
                         x->body.size, text_size, number->text.data);
  case NUMBER_VALID:
    break;
  }
  if (number->value < 0 || (uint64_t)number->value > x->body.size)
    return exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                         "inference header size should be in range (0, %zu), got: %" PRId64,
                         x->body.size, number->value);
  *size = (size_t)number->value;
  return true;
}

// ---- raw requests: the whole body is the only input ----

static bool fill_raw(exchange *x, http_inference *i)
{
  i->life.tensors.fallback.binary = true;
  return !exchange_fail_if(x,
                           TRITONSERVER_InferenceRequestAddRawInput(i->life.request, RAW_INPUT)) &&
         !exchange_fail_if(
             x, TRITONSERVER_InferenceRequestAppendInputData(
                    i->life.request, RAW_INPUT, x->body.data, x->body.size,
                    x->body.in_pool ? TRITONSERVER_MEMORY_CPU_PINNED : TRITONSERVER_MEMORY_CPU, 0));
}

// ---- requests with a JSON part ----

static TRITONSERVER_Error *set_flags(const exchange *x, TRITONSERVER_InferenceRequest *request,
                                     const infer_request_json *json)
{
  uint32_t flags = inference_run_here_flag(x->inference, x->body.size) |
                   (exchange_is_alone(x) ? NEREID_REQUEST_FLAG_ALONE : 0) |
                   (json->sequence_start ? TRITONSERVER_REQUEST_FLAG_SEQUENCE_START : 0) |
                   (json->sequence_end ? TRITONSERVER_REQUEST_FLAG_SEQUENCE_END : 0);
  return TRITONSERVER_InferenceRequestSetFlags(request, flags);
}

static TRITONSERVER_Error *set_sequence(TRITONSERVER_InferenceRequest *request,
                                        const infer_request_json *json)
{
  if (json->sequence_name != NULL)
    return TRITONSERVER_InferenceRequestSetCorrelationIdString(request, json->sequence_name);
  if (json->sequence_id != 0)
    return TRITONSERVER_InferenceRequestSetCorrelationId(request, json->sequence_id);
  return NULL;
}

static bool choose_version(exchange *x, http_inference *i)
{
  return !exchange_fail_if_error(x, infer_choose_version(i));
}

static bool set_options(exchange *x, http_inference *i, const infer_request_json *json)
{
  i->life.request_id = json->id;
  if (json->id[0] != '\0' &&
      exchange_fail_if(x, TRITONSERVER_InferenceRequestSetId(i->life.request, json->id)))
    return false;
  if (exchange_fail_if(x, set_flags(x, i->life.request, json)))
    return false;
  if (json->priority != 0 && exchange_fail_if(x, TRITONSERVER_InferenceRequestSetPriorityUInt64(
                                                     i->life.request, json->priority)))
    return false;
  if (json->timeout_us != 0 &&
      exchange_fail_if(x, TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(i->life.request,
                                                                              json->timeout_us)))
    return false;
  // infer has taken parameters with a meaning out already; generate has none.
  for (size_t k = 0; k < json->parameters.count; k++)
    if (exchange_fail_if_error(x,
                               request_parameter_give(i->life.request, &json->parameters.items[k])))
      return false;
  return true;
}

// Counts tensors from JSON for the budget, unless they fit in the exchange's own memory: most
// requests are small, and all threads share the counter.
static bool reserve_tensors(exchange *x, const infer_request_json *json)
{
  return json->json_data_size < EXCHANGE_ARENA_BYTES ||
         !exchange_fail_if_body(x, body_reserve_work(&x->body, json->json_data_size));
}

static void release_text(void *exchange_pointer, const char *begin, const char *end)
{
  exchange *x = exchange_pointer;
  body_discard(&x->body, (size_t)(begin - x->body.data), (size_t)(end - begin));
}

static bool add_tensors(exchange *x, http_inference *i, const infer_request_json *json)
{
  i->life.tensors.fallback.binary = json->binary_output;
  return !exchange_fail_if_error(
      x, infer_tensors_add(&i->life.tensors, i->life.model_name, i->life.model_version,
                           json->inputs, json->input_count, json->outputs, json->output_count));
}

static bool fill_tensors(exchange *x, http_inference *i)
{
  size_t json_size;
  infer_request_json json;
  if (!json_size_of(x, &json_size))
    return false;
  if (json_size == 0)
    return choose_version(x, i) && fill_raw(x, i);
  const slice text = {x->body.data, json_size};
  const slice binary = {x->body.data + json_size, x->body.size - json_size};
  const json_host host = {
      .parallel = &http_server_of(x->http)->parallel, .release_text = release_text, .context = x};
  if (exchange_fail_if_error(x, infer_request_json_read(text, x->http->options.max_input_size,
                                                        &host, &x->arena, &json)) ||
      !reserve_tensors(x, &json) ||
      exchange_fail_if_error(x,
                             binary_tensors_split(&json, x->parameters[PARAMETER_MODEL], binary)))
    return false;
  return !exchange_fail_if(x, set_sequence(i->life.request, &json)) && choose_version(x, i) &&
         add_tensors(x, i, &json) && set_options(x, i, &json);
}

typedef struct header_forwarding {
  exchange *exchange;
  TRITONSERVER_InferenceRequest *request;
} header_forwarding;

static enum MHD_Result forward_field(void *forwarding_pointer, enum MHD_ValueKind kind,
                                     const char *name, size_t name_size, const char *value,
                                     size_t value_size)
{
  (void)kind;
  (void)value_size;
  header_forwarding *f = forwarding_pointer;
  bool matches;
  if (exchange_fail_if_error(f->exchange,
                             header_forward_matches(f->exchange->http->options.forward,
                                                    (slice){name, name_size}, &matches)))
    return MHD_NO;
  if (matches)
    exchange_fail_if(f->exchange,
                     TRITONSERVER_InferenceRequestSetStringParameter(f->request, name, value));
  return f->exchange->failure == NULL ? MHD_YES : MHD_NO;
}

static bool forward_headers(exchange *x, http_inference *i)
{
  header_forwarding f = {x, i->life.request};
  if (x->http->options.forward != NULL)
    MHD_get_connection_values_n(x->mhd, MHD_HEADER_KIND, forward_field, &f);
  return x->failure == NULL;
}

bool infer_fill_request(exchange *x, http_inference *i)
{
  return fill_tensors(x, i) && forward_headers(x, i);
}

// ---- generate ----

#define ZEROES_BEHIND 16 // generate_inputs_read needs them

// Reads the inputs from the metadata of the model's version.
static bool read_model_inputs(exchange *x, int64_t version, generate_inputs *inputs)
{
  TRITONSERVER_Message *message;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  TRITONSERVER_Error *failure = TRITONSERVER_ServerModelMetadata(
      x->http->server, x->parameters[PARAMETER_MODEL], version, &message);
  if (exchange_fail_if_error(x, admin_take_json(failure, &message, &text)))
    return false;
  char *copy = arena_allocate_array(&x->arena, 1, text.size + ZEROES_BEHIND);
  if (copy == NULL)
    return exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
  memcpy(copy, text.data, text.size);
  exchange_fail_if_error(x, generate_inputs_read((slice){copy, text.size}, &x->arena, inputs));
  return x->failure == NULL;
}

bool generate_fill_request(exchange *x, http_inference *i)
{
  generate_inputs inputs;
  infer_request_json json;
  const slice text = {x->body.data, x->body.size};
  if (!choose_version(x, i) || !read_model_inputs(x, i->life.model_version, &inputs) ||
      exchange_fail_if_error(x, generate_request_json_read(text, &inputs,
                                                           x->http->options.max_input_size,
                                                           &x->arena, &json)) ||
      !reserve_tensors(x, &json))
    return false;
  return add_tensors(x, i, &json) && set_options(x, i, &json);
}
