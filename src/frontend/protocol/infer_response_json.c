// Printing of inference replies, in the order of members that Triton has.
#include "frontend/protocol/infer_response_json.h"

#include "base/number.h"
#include "frontend/protocol/datatype.h"
#include "frontend/protocol/json_tensor.h"

#include <inttypes.h>

static void append_name(buffer *out, const char *key, const char *value)
{
  buffer_append_format(out, "\"%s\":", key);
  buffer_append_json_string(out, slice_of(value));
}

static void append_parameter(buffer *out, const json_parameter *p)
{
  char number[NUMBER_TEXT_BYTES];
  buffer_append_json_string(out, slice_of(p->name));
  buffer_append_char(out, ':');
  switch (p->type) {
  case TRITONSERVER_PARAMETER_BOOL:
    buffer_append_text(out, p->value.boolean ? "true" : "false");
    return;
  case TRITONSERVER_PARAMETER_INT:
    buffer_append(out, number, number_print_i64(number, p->value.integer));
    return;
  case TRITONSERVER_PARAMETER_DOUBLE:
    buffer_append(out, number, number_print_f64(number, p->value.number));
    return;
  default:
    buffer_append_json_string(out, slice_of(p->value.string));
  }
}

static void append_parameters(buffer *out, const json_parameter *parameters, size_t count)
{
  buffer_append_text(out, ",\"parameters\":{");
  for (size_t i = 0; i < count; i++) {
    if (i > 0)
      buffer_append_char(out, ',');
    append_parameter(out, &parameters[i]);
  }
  buffer_append_char(out, '}');
}

static void append_shape(buffer *out, const response_output_json *o)
{
  char number[NUMBER_TEXT_BYTES];
  buffer_append_text(out, ",\"shape\":[");
  for (size_t i = 0; i < o->shape_count; i++) {
    if (i > 0)
      buffer_append_char(out, ',');
    buffer_append(out, number, number_print_i64(number, o->shape[i]));
  }
  buffer_append_char(out, ']');
}

// False when a dimension is negative or the product does not fit.
static bool count_elements(const response_output_json *o, uint64_t *count)
{
  *count = 1;
  for (size_t i = 0; i < o->shape_count; i++)
    if (o->shape[i] < 0 || __builtin_mul_overflow(*count, (uint64_t)o->shape[i], count))
      return false;
  return true;
}

static error *append_data(buffer *out, const response_output_json *o)
{
  uint64_t count;
  if (!count_elements(o, &count))
    return error_new(ERROR_INTERNAL, "its shape has an invalid dimension");
  buffer_append_text(out, ",\"data\":");
  return json_tensor_write(o->datatype, o->data, o->data_size, count, out);
}

static error *append_output(buffer *out, const response_output_json *o)
{
  buffer_append_char(out, '{');
  append_name(out, "name", o->name);
  buffer_append_char(out, ',');
  append_name(out, "datatype", protocol_datatype_name(o->datatype));
  append_shape(out, o);
  error *e = NULL;
  switch (o->form) {
  case RESPONSE_DATA_JSON:
    e = append_data(out, o);
    break;
  case RESPONSE_DATA_BINARY:
    buffer_append_format(out, ",\"parameters\":{\"binary_data_size\":%zu}", o->data_size);
    break;
  case RESPONSE_DATA_SHARED_MEMORY:
    buffer_append_text(out, ",\"parameters\":{");
    append_name(out, "shared_memory_region", o->shared_memory.region);
    buffer_append_format(
        out, ",\"shared_memory_offset\":%" PRIu64 ",\"shared_memory_byte_size\":%" PRIu64 "}",
        o->shared_memory.offset, o->shared_memory.byte_size);
    break;
  }
  buffer_append_char(out, '}');
  return e == NULL ? NULL : error_wrap(e, "output '%s'", o->name);
}

error *infer_response_json_write(const infer_response_json *r, buffer *out)
{
  buffer_append_char(out, '{');
  if (r->id != NULL && r->id[0] != '\0') {
    append_name(out, "id", r->id);
    buffer_append_char(out, ',');
  }
  append_name(out, "model_name", r->model_name);
  buffer_append_format(out, ",\"model_version\":\"%" PRId64 "\"", r->model_version);
  if (r->parameter_count > 0)
    append_parameters(out, r->parameters, r->parameter_count);
  buffer_append_text(out, ",\"outputs\":[");
  for (size_t i = 0; i < r->output_count; i++) {
    if (i > 0)
      buffer_append_char(out, ',');
    RETURN_IF_ERROR(append_output(out, &r->outputs[i]));
  }
  buffer_append_text(out, "]}");
  return out->failed ? error_no_memory() : NULL;
}
