// SPDX-License-Identifier: Apache-2.0
// A reply made of any names and any tensor. What is written must be JSON for another parser, with
// the same names and values in it. An input is five lines, id, model, output, parameter and its
// text, then the parameter's kind, the type, the number of elements and the tensor's bytes.
#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "frontend/common/json/infer_response_json.h"
#include "fuzz.h"

#include <jansson.h>
#include <math.h>

#define WHOLE 0xff // as many elements as the bytes hold

// ---- expectations ----

// Bytes that are no UTF-8 become U+FFFD, one by one.
static void append_clean(buffer *out, const char *text)
{
  for (size_t left = strlen(text); left > 0;) {
    const size_t size = text_utf8_length(text, left);
    if (size == 0)
      buffer_append_text(out, "\xef\xbf\xbd");
    else
      buffer_append(out, text, size);
    text += size == 0 ? 1 : size;
    left -= size == 0 ? 1 : size;
  }
}

static void check_text(const json_t *value, const char *text)
{
  AUTO_BUFFER buffer expected = BUFFER_EMPTY;
  append_clean(&expected, text);
  CHECK(json_is_string(value));
  const slice found = {json_string_value(value), json_string_length(value)};
  CHECK(slice_equal(found, buffer_view(&expected)));
}

static void check_parameter(const json_t *reply, const request_parameter *p)
{
  AUTO_BUFFER buffer name = BUFFER_EMPTY;
  append_clean(&name, p->name);
  buffer_append_char(&name, '\0');
  const json_t *value = json_object_get(json_object_get(reply, "parameters"), name.data);
  switch (p->type) {
  case REQUEST_PARAMETER_BOOL:
    CHECK(json_is_boolean(value) && json_is_true(value) == p->value.boolean);
    break;
  case REQUEST_PARAMETER_INT64:
    CHECK(json_number_value(value) == (double)p->value.integer);
    break;
  case REQUEST_PARAMETER_DOUBLE:
    CHECK(json_is_number(value) && json_number_value(value) == p->value.real);
    break;
  default:
    check_text(value, p->value.string);
  }
}

static uint64_t little_endian(const void *data, size_t size)
{
  uint64_t bits = 0;
  memcpy(&bits, data, size);
  return bits;
}

static double element_value(TRITONSERVER_DataType type, const void *data)
{
  const uint64_t bits = little_endian(data, TRITONSERVER_DataTypeByteSize(type));
  const uint32_t bits32 = (uint32_t)bits;
  float f32;
  double f64;
  memcpy(&f32, &bits32, sizeof(f32));
  memcpy(&f64, &bits, sizeof(f64));
  switch (type) {
  case TRITONSERVER_TYPE_BOOL:
    return bits != 0;
  case TRITONSERVER_TYPE_INT8:
    return (int8_t)bits;
  case TRITONSERVER_TYPE_INT16:
    return (int16_t)bits;
  case TRITONSERVER_TYPE_INT32:
    return (int32_t)bits;
  case TRITONSERVER_TYPE_INT64:
    return (double)(int64_t)bits;
  case TRITONSERVER_TYPE_FP16:
    return (double)number_f16_to_f32((uint16_t)bits);
  case TRITONSERVER_TYPE_BF16:
    return (double)number_bf16_to_f32((uint16_t)bits);
  case TRITONSERVER_TYPE_FP32:
    return (double)f32;
  case TRITONSERVER_TYPE_FP64:
    return f64;
  default:
    return (double)bits;
  }
}

// A text that stands for a value of a narrow type is not that value: it reads back to it.
static bool is_same(TRITONSERVER_DataType type, double found, double expected)
{
  switch (type) {
  case TRITONSERVER_TYPE_FP16:
    return number_f32_to_f16((float)found) == number_f32_to_f16((float)expected);
  case TRITONSERVER_TYPE_BF16:
    return number_f32_to_bf16((float)found) == number_f32_to_bf16((float)expected);
  case TRITONSERVER_TYPE_FP32:
    return (float)found == (float)expected;
  default:
    return found == expected;
  }
}

static void check_element(const response_output_json *o, size_t i, const char **bytes,
                          const json_t *value)
{
  const size_t size = TRITONSERVER_DataTypeByteSize(o->datatype);
  if (o->datatype == TRITONSERVER_TYPE_BYTES) {
    const slice text = {*bytes + 4, (size_t)little_endian(*bytes, 4)};
    CHECK(slice_equal((slice){json_string_value(value), json_string_length(value)}, text));
    *bytes += 4 + text.size;
  } else if (o->datatype == TRITONSERVER_TYPE_BOOL) {
    CHECK(json_is_boolean(value) && json_is_true(value) == (((const char *)o->data)[i] != 0));
  } else {
    CHECK(json_is_number(value));
    CHECK(is_same(o->datatype, json_number_value(value),
                  element_value(o->datatype, (const char *)o->data + i * size)));
  }
}

// Of a tensor that is not in the JSON part.
static void check_elsewhere(const json_t *output, const response_output_json *o)
{
  const json_t *parameters = json_object_get(output, "parameters");
  CHECK(json_object_get(output, "data") == NULL);
  if (o->form == RESPONSE_DATA_BINARY) {
    CHECK(json_number_value(json_object_get(parameters, "binary_data_size")) ==
          (double)o->data_size);
    return;
  }
  CHECK(parameters == NULL);
}

static void check_output(const json_t *reply, const response_output_json *o)
{
  const json_t *output = json_array_get(json_object_get(reply, "outputs"), 0);
  check_text(json_object_get(output, "name"), o->name);
  check_text(json_object_get(output, "datatype"), TRITONSERVER_DataTypeString(o->datatype));
  if (o->form != RESPONSE_DATA_JSON) {
    check_elsewhere(output, o);
    return;
  }
  const json_t *data = json_object_get(output, "data");
  CHECK(json_is_array(data) && json_array_size(data) == (size_t)o->shape[0]);
  const char *bytes = o->data;
  for (size_t i = 0; i < json_array_size(data); i++)
    check_element(o, i, &bytes, json_array_get(data, i));
}

// Of whole elements of BYTES.
static bool is_utf8(const char *at, size_t size)
{
  while (size > 0) {
    const size_t length = (size_t)little_endian(at, 4);
    for (size_t i = 0, step; i < length; i += step)
      if ((step = text_utf8_length(at + 4 + i, length - i)) == 0)
        return false;
    at += 4 + length;
    size -= 4 + length;
  }
  return true;
}

// NaN and infinities are words that JSON does not have, and strings that are not UTF-8 go out as
// they are.
static bool is_no_json(const infer_response_json *r)
{
  const response_output_json *o = &r->outputs[0];
  const size_t size = TRITONSERVER_DataTypeByteSize(o->datatype);
  if (r->parameters[0].type == REQUEST_PARAMETER_DOUBLE && !isfinite(r->parameters[0].value.real))
    return true;
  if (o->form == RESPONSE_DATA_JSON && size == 0 && !is_utf8(o->data, o->data_size))
    return true;
  for (size_t i = 0; o->form == RESPONSE_DATA_JSON && size > 0 && i < o->data_size / size; i++)
    if (!isfinite(element_value(o->datatype, (const char *)o->data + i * size)))
      return true;
  return false;
}

static void check_reply(const infer_response_json *r)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  const response_output_json *o = &r->outputs[0];
  const size_t size = TRITONSERVER_DataTypeByteSize(o->datatype);
  error *e = infer_response_json_write(r, NULL, &text);
  if (e != NULL) {
    CHECK(size == 0 || o->data_size != (size_t)o->shape[0] * size);
    CHECK(error_get_code(e) == ERROR_INTERNAL);
    error_free(e);
    return;
  }
  if (is_no_json(r))
    return;
  json_error_t where;
  const size_t flags = JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL;
  json_t *reply = json_loadb(text.data, text.size, flags, &where);
  CHECK(reply != NULL);
  if (r->id[0] != '\0')
    check_text(json_object_get(reply, "id"), r->id);
  check_text(json_object_get(reply, "model_name"), r->model_name);
  check_parameter(reply, &r->parameters[0]);
  check_output(reply, o);
  json_decref(reply);
}

// ---- inputs ----

static request_parameter make_parameter(uint8_t kind, const fuzz_input *input, char *name,
                                        char *text)
{
  static const request_parameter_type types[] = {REQUEST_PARAMETER_STRING, REQUEST_PARAMETER_INT64,
                                                 REQUEST_PARAMETER_BOOL, REQUEST_PARAMETER_DOUBLE};
  request_parameter p = {.name = name, .type = types[kind % 4]};
  const fuzz_input value = *input;
  const uint64_t bits = little_endian(value.data, value.size < 8 ? value.size : 8);
  switch (p.type) {
  case REQUEST_PARAMETER_INT64:
    p.value.integer = (int64_t)bits;
    break;
  case REQUEST_PARAMETER_BOOL:
    p.value.boolean = bits & 1;
    break;
  case REQUEST_PARAMETER_DOUBLE:
    memcpy(&p.value.real, &bits, sizeof(bits));
    break;
  default:
    p.value.string = text;
  }
  return p;
}

static void check_input(fuzz_input input, char *lines[5])
{
  const uint8_t kind = fuzz_byte(&input);
  const request_parameter parameter = make_parameter(kind, &input, lines[3], lines[4]);
  const TRITONSERVER_DataType type = (TRITONSERVER_DataType)(1 + fuzz_byte(&input) % 14);
  const uint8_t count = fuzz_byte(&input);
  const size_t size = TRITONSERVER_DataTypeByteSize(type);
  char *data = malloc(input.size > 0 ? input.size : 1); // aligned
  CHECK(data != NULL);
  if (input.size > 0)
    memcpy(data, input.data, input.size);
  const int64_t shape[] = {count == WHOLE && size > 0 ? (int64_t)(input.size / size) : count};
  const response_output_json output = {
      .name = lines[2],
      .datatype = type,
      .shape = shape,
      .shape_count = 1,
      .data = data,
      .data_size = count == WHOLE && size > 0 ? input.size / size * size : input.size,
      .form = (response_data_form)(kind / 4 % 3)};
  check_reply(&(infer_response_json){.id = lines[0],
                                     .model_name = lines[1],
                                     .model_version = 1,
                                     .parameters = &parameter,
                                     .parameter_count = 1,
                                     .outputs = &output,
                                     .output_count = 1});
  free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input = {data, size};
  char *lines[5];
  for (size_t i = 0; i < 5; i++)
    lines[i] = fuzz_copy(fuzz_take_until(&input, '\n'), 0);
  check_input(input, lines);
  for (size_t i = 0; i < 5; i++)
    free(lines[i]);
  return 0;
}
