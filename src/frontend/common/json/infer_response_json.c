// SPDX-License-Identifier: Apache-2.0
// Prints inference replies, with members in Triton's order.
#include "frontend/common/json/infer_response_json.h"

#include "base/number.h"
#include "frontend/common/json/json_tensor.h"

#include <stdint.h>

static void append_i64(buffer *out, int64_t value)
{
  char number[NUMBER_TEXT_BYTES];
  buffer_append(out, number, number_print_i64(number, value));
}

// `before` is the key and all text before the string.
static void append_text(buffer *out, slice before, const char *text)
{
  buffer_append_slice(out, before);
  buffer_append_json_string(out, slice_of(text));
}

static void append_parameters(buffer *out, const request_parameter *parameters, size_t count)
{
  buffer_append_text(out, ",\"parameters\":{");
  for (size_t i = 0; i < count; i++) {
    if (i > 0)
      buffer_append_char(out, ',');
    json_parameter_append(out, &parameters[i]);
  }
  buffer_append_char(out, '}');
}

static void append_shape(buffer *out, const response_output_json *o)
{
  buffer_append_slice(out, SLICE(",\"shape\":["));
  for (size_t i = 0; i < o->shape_count; i++) {
    if (i > 0)
      buffer_append_char(out, ',');
    append_i64(out, o->shape[i]);
  }
  buffer_append_char(out, ']');
}

bool response_output_count(const response_output_json *o, uint64_t *count)
{
  *count = 1;
  for (size_t i = 0; i < o->shape_count; i++)
    if (o->shape[i] < 0 || __builtin_mul_overflow(*count, (uint64_t)o->shape[i], count))
      return false;
  return true;
}

static error *append_data(buffer *out, const response_output_json *o, const parallel *p)
{
  uint64_t count;
  if (!response_output_count(o, &count))
    return error_new(ERROR_INTERNAL, "its shape has an invalid dimension");
  buffer_append_text(out, ",\"data\":");
  return json_tensor_write(o->datatype, o->data, o->data_size, count, p, out);
}

static error *append_output(buffer *out, const response_output_json *o, const parallel *p)
{
  append_text(out, SLICE("{\"name\":"), o->name);
  append_text(out, SLICE(",\"datatype\":"), TRITONSERVER_DataTypeString(o->datatype));
  append_shape(out, o);
  error *e = o->form == RESPONSE_DATA_JSON ? append_data(out, o, p) : NULL;
  if (o->form == RESPONSE_DATA_BINARY) {
    buffer_append_slice(out, SLICE(",\"parameters\":{\"binary_data_size\":"));
    append_i64(out, (int64_t)o->data_size);
    buffer_append_char(out, '}');
  }
  buffer_append_char(out, '}');
  return e == NULL ? NULL : error_wrap(e, "output '%s'", o->name);
}

error *infer_response_json_write(const infer_response_json *r, const parallel *p, buffer *out)
{
  buffer_append_char(out, '{');
  if (r->id != NULL && r->id[0] != '\0') {
    append_text(out, SLICE("\"id\":"), r->id);
    buffer_append_char(out, ',');
  }
  append_text(out, SLICE("\"model_name\":"), r->model_name);
  buffer_append_slice(out, SLICE(",\"model_version\":\""));
  append_i64(out, r->model_version);
  buffer_append_char(out, '"');
  if (r->parameter_count > 0)
    append_parameters(out, r->parameters, r->parameter_count);
  buffer_append_text(out, ",\"outputs\":[");
  for (size_t i = 0; i < r->output_count; i++) {
    if (i > 0)
      buffer_append_char(out, ',');
    RETURN_IF_ERROR(append_output(out, &r->outputs[i], p));
  }
  buffer_append_text(out, "]}");
  return out->failed ? error_no_memory() : NULL;
}
