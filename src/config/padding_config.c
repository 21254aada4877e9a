// SPDX-License-Identifier: Apache-2.0
// See padding_config.h. Called on load threads and by `nereid check`.
#include "config/padding_config.h"

#include "base/number.h"
#include "base/text.h"
#include "config/datatype.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_FORM  "<input>[:<dim>][=<value>], separated by commas"
#define OUTPUT_FORM "<output>[:<dim>], separated by commas"
#define TO_FORM     "longest, a number (what the length is a multiple of) or [<number>, …] (buckets)"
#define LENGTH_FORM                                                                                \
  "the name of an input of TYPE_INT32 or TYPE_INT64 with one element, or a new name"

typedef struct reader {
  const Inference__ModelConfig *config;
  padding_config *p;
  const char *parameter; // being read
  const char *text;      // its value
} reader;

static error *refuse(const reader *r, const char *form, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static error *refuse(const reader *r, const char *form, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  error *why = error_new_va(ERROR_INVALID_ARG, format, arguments);
  va_end(arguments);
  error *e = error_new(ERROR_INVALID_ARG,
                       "model '%s': parameter '%s': invalid value '%s': %s, expected %s",
                       r->config->name, r->parameter, r->text, error_message(why), form);
  error_free(why);
  return e;
}

// ---- values ----

static bool fits_integer(int64_t value, int bits, bool is_signed)
{
  if (bits == 64)
    return is_signed || value >= 0;
  int64_t least = is_signed ? -(INT64_C(1) << (bits - 1)) : 0;
  return value >= least && value < INT64_C(1) << (is_signed ? bits - 1 : bits);
}

static bool put_float(Inference__DataType type, double value, unsigned char *to)
{
  float narrow = (float)value;
  uint16_t bits = type == INFERENCE__DATA_TYPE__TYPE_FP16 ? number_f32_to_f16(narrow)
                                                          : number_f32_to_bf16(narrow);
  if (type == INFERENCE__DATA_TYPE__TYPE_FP64)
    memcpy(to, &value, sizeof(value));
  else if (type == INFERENCE__DATA_TYPE__TYPE_FP32)
    memcpy(to, &narrow, sizeof(narrow));
  else
    memcpy(to, &bits, sizeof(bits));
  return true;
}

static bool read_value(Inference__DataType type, uint32_t size, slice text, unsigned char *to)
{
  int64_t integer;
  double real;
  switch (type) {
  case INFERENCE__DATA_TYPE__TYPE_FP16:
  case INFERENCE__DATA_TYPE__TYPE_BF16:
  case INFERENCE__DATA_TYPE__TYPE_FP32:
  case INFERENCE__DATA_TYPE__TYPE_FP64:
    return text_to_double(text, &real) && put_float(type, real, to);
  case INFERENCE__DATA_TYPE__TYPE_BOOL:
    *to = slice_equal_text(text, "true") || slice_equal_text(text, "1");
    return *to != 0 || slice_equal_text(text, "false") || slice_equal_text(text, "0");
  default:
    break;
  }
  bool is_signed =
      type == INFERENCE__DATA_TYPE__TYPE_INT8 || type == INFERENCE__DATA_TYPE__TYPE_INT16 ||
      type == INFERENCE__DATA_TYPE__TYPE_INT32 || type == INFERENCE__DATA_TYPE__TYPE_INT64;
  if (!text_to_int64(text, &integer) || !fits_integer(integer, (int)size * 8, is_signed))
    return false;
  memcpy(to, &integer, size); // little endian
  return true;
}

// ---- lists ----

static bool is_blank(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static slice trim(slice text)
{
  while (text.size > 0 && is_blank(text.data[0]))
    text = (slice){text.data + 1, text.size - 1};
  while (text.size > 0 && is_blank(text.data[text.size - 1]))
    text.size--;
  return text;
}

// Takes the text before the next comma off *rest. False at the end.
static bool next_item(slice *rest, slice *item)
{
  if (rest->data == NULL)
    return false;
  const char *comma = memchr(rest->data, ',', rest->size);
  size_t size = comma != NULL ? (size_t)(comma - rest->data) : rest->size;
  *item = trim((slice){rest->data, size});
  *rest = comma != NULL ? (slice){comma + 1, rest->size - size - 1} : (slice){NULL, 0};
  return true;
}

static size_t count_items(slice text)
{
  size_t count = 1;
  for (size_t i = 0; i < text.size; i++)
    count += text.data[i] == ',';
  return count;
}

// Splits `text` at its last `separator`; false where it has none.
static bool split_last(slice text, char separator, slice *head, slice *tail)
{
  const char *at = memrchr(text.data, separator, text.size);
  if (at == NULL)
    return false;
  *head = trim((slice){text.data, (size_t)(at - text.data)});
  *tail = trim((slice){at + 1, (size_t)(text.data + text.size - at - 1)});
  return true;
}

// ---- tensors: what inputs and outputs have in common ----

typedef struct tensor {
  const char *name;
  Inference__DataType type;
  const int64_t *dims;
  size_t dim_count;
  const char *obstacle; // why it cannot be padded; or NULL
} tensor;

static tensor input_at(const Inference__ModelConfig *config, size_t i)
{
  const Inference__ModelInput *in = config->input[i];
  const char *obstacle = in->reshape != NULL           ? "has a reshape"
                         : in->allow_ragged_batch      ? "has allow_ragged_batch"
                         : in->is_shape_tensor         ? "is a shape tensor"
                         : in->is_non_linear_format_io ? "has a format that is not linear"
                                                       : NULL;
  return (tensor){in->name, in->data_type, in->dims, in->n_dims, obstacle};
}

static tensor output_at(const Inference__ModelConfig *config, size_t i)
{
  const Inference__ModelOutput *out = config->output[i];
  const char *obstacle = out->reshape != NULL           ? "has a reshape"
                         : out->is_shape_tensor         ? "is a shape tensor"
                         : out->is_non_linear_format_io ? "has a format that is not linear"
                                                        : NULL;
  return (tensor){out->name, out->data_type, out->dims, out->n_dims, obstacle};
}

typedef struct tensor_list {
  tensor (*at)(const Inference__ModelConfig *config, size_t i);
  size_t count;
  const char *what, *form;
} tensor_list;

static bool find_tensor(const reader *r, const tensor_list *list, slice name, size_t *index)
{
  for (size_t i = 0; i < list->count; i++)
    if (slice_equal_text(name, list->at(r->config, i).name)) {
      *index = i;
      return true;
    }
  return false;
}

static error *find_dim(const reader *r, const tensor_list *list, const tensor *t, slice text,
                       uint32_t *dim)
{
  int64_t given = -1;
  size_t variable = 0;
  for (size_t i = 0; i < t->dim_count; i++)
    if (t->dims[i] < 0) {
      *dim = (uint32_t)i;
      variable++;
    }
  if (text.data == NULL && variable == 1)
    return NULL;
  if (text.data == NULL)
    return refuse(r, list->form, "%s '%s' has %zu variable dimensions and none of them is named",
                  list->what, t->name, variable);
  if (!text_to_int64(text, &given) || given < 0 || (size_t)given >= t->dim_count ||
      t->dims[given] >= 0)
    return refuse(r, list->form, "'%.*s' is no variable dimension of %s '%s'", (int)text.size,
                  text.data, list->what, t->name);
  *dim = (uint32_t)given;
  return NULL;
}

// <name>[:<dim>]; a name may have a colon itself.
static error *read_tensor(const reader *r, const tensor_list *list, slice text, padded_tensor *to)
{
  slice name = text, dim = {NULL, 0};
  if (!find_tensor(r, list, name, &to->index) &&
      (!split_last(text, ':', &name, &dim) || !find_tensor(r, list, name, &to->index)))
    return refuse(r, list->form, "'%.*s' is no %s of the model", (int)name.size, name.data,
                  list->what);
  tensor t = list->at(r->config, to->index);
  const datatype *type = datatype_by_value((int)t.type);
  if (t.obstacle != NULL)
    return refuse(r, list->form, "%s '%s' %s", list->what, t.name, t.obstacle);
  if (type == NULL || type->byte_size == 0)
    return refuse(r, list->form, "%s '%s' has elements without a fixed size", list->what, t.name);
  to->element_size = type->byte_size;
  return find_dim(r, list, &t, dim, &to->dim);
}

static bool is_listed(const padded_tensor *tensors, size_t count, size_t index)
{
  for (size_t i = 0; i < count; i++)
    if (tensors[i].index == index)
      return true;
  return false;
}

static error *read_list(const reader *r, const tensor_list *list, bool valued,
                        padded_tensor **tensors, size_t *count)
{
  slice rest = slice_of(r->text), item;
  *tensors = calloc(count_items(rest), sizeof(**tensors));
  if (*tensors == NULL)
    return error_no_memory();
  while (next_item(&rest, &item)) {
    padded_tensor *to = &(*tensors)[*count];
    slice name, value;
    bool given = valued && split_last(item, '=', &name, &value);
    RETURN_IF_ERROR(read_tensor(r, list, given ? name : item, to));
    if (given &&
        !read_value(list->at(r->config, to->index).type, to->element_size, value, to->value))
      return refuse(r, list->form, "'%.*s' is no %s", (int)value.size, value.data,
                    datatype_by_value((int)list->at(r->config, to->index).type)->config_name);
    if (is_listed(*tensors, *count, to->index))
      return refuse(r, list->form, "'%.*s' is there twice", (int)item.size, item.data);
    ++*count;
  }
  return NULL;
}

// ---- what it is padded to ----

static error *read_sizes(reader *r, slice text)
{
  slice item;
  r->p->sizes = calloc(count_items(text), sizeof(*r->p->sizes));
  if (r->p->sizes == NULL)
    return error_no_memory();
  while (next_item(&text, &item)) {
    int64_t size, last = r->p->size_count > 0 ? r->p->sizes[r->p->size_count - 1] : 0;
    if (!text_to_int64(item, &size) || size <= 0)
      return refuse(r, TO_FORM, "'%.*s' is no positive number", (int)item.size, item.data);
    if (size <= last)
      return refuse(r, TO_FORM, "%" PRId64 " stands behind %" PRId64, size, last);
    r->p->sizes[r->p->size_count++] = size;
  }
  return NULL;
}

static error *read_rule(reader *r)
{
  slice text = trim(slice_of(r->text));
  if (slice_equal_text(text, "longest"))
    return NULL;
  r->p->rule = PADDING_MULTIPLE;
  if (text.size >= 2 && text.data[0] == '[' && text.data[text.size - 1] == ']') {
    r->p->rule = PADDING_BUCKETS;
    return read_sizes(r, (slice){text.data + 1, text.size - 2});
  }
  if (memchr(text.data, ',', text.size) != NULL)
    return refuse(r, TO_FORM, "several numbers without brackets");
  return read_sizes(r, text);
}

// ---- lengths ----

static error *read_length(reader *r)
{
  padding_config *p = r->p;
  if (r->text[0] == '\0')
    return refuse(r, LENGTH_FORM, "it is empty");
  p->length_name = strdup(r->text);
  if (p->length_name == NULL)
    return error_no_memory();
  for (size_t i = 0; i < r->config->n_input; i++) {
    const Inference__ModelInput *in = r->config->input[i];
    if (strcmp(in->name, r->text) != 0)
      continue;
    p->length_input = i;
    p->length_is_int64 = in->data_type == INFERENCE__DATA_TYPE__TYPE_INT64;
    bool single = true;
    for (size_t d = 0; d < in->n_dims; d++)
      single = single && (in->dims[d] == 1 || (in->n_dims == 1 && in->dims[d] == -1));
    if (!single || is_listed(p->inputs, p->input_count, i) ||
        (!p->length_is_int64 && in->data_type != INFERENCE__DATA_TYPE__TYPE_INT32))
      return refuse(r, LENGTH_FORM, "that input is another kind of tensor");
  }
  return NULL;
}

// ---- all of it ----

static error *read_all(reader *r)
{
  static const char *const names[] = {"padding", "padding_to", "padding_length", "padding_outputs"};
  const tensor_list inputs = {input_at, r->config->n_input, "input", INPUT_FORM};
  const tensor_list outputs = {output_at, r->config->n_output, "output", OUTPUT_FORM};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    error *e = NULL;
    r->parameter = names[i];
    r->text = config_parameter(r->config, names[i]);
    if (r->text == NULL)
      continue;
    if (i > 0 && r->p->input_count == 0)
      return refuse(r, "the parameter 'padding' beside it", "nothing is padded");
    if (i == 0)
      e = read_list(r, &inputs, true, &r->p->inputs, &r->p->input_count);
    else if (i == 1)
      e = read_rule(r);
    else if (i == 2)
      e = read_length(r);
    else
      e = read_list(r, &outputs, false, &r->p->outputs, &r->p->output_count);
    if (e != NULL)
      return e;
  }
  return NULL;
}

error *padding_config_read(const Inference__ModelConfig *config, padding_config **result,
                           const char **parameter)
{
  *result = NULL;
  padding_config *p = calloc(1, sizeof(*p));
  if (p == NULL)
    return error_no_memory();
  p->length_input = SIZE_MAX;
  reader r = {.config = config, .p = p};
  error *e = read_all(&r);
  *parameter = r.parameter;
  if (e != NULL || p->input_count == 0) {
    padding_config_free(p);
    return e;
  }
  *result = p;
  return NULL;
}

void padding_config_free(padding_config *p)
{
  if (p == NULL)
    return;
  free(p->inputs);
  free(p->outputs);
  free(p->sizes);
  free(p->length_name);
  free(p);
}

int64_t padding_target(const padding_config *p, int64_t longest)
{
  int64_t added;
  if (p->rule == PADDING_MULTIPLE && longest % p->sizes[0] != 0 &&
      !__builtin_add_overflow(longest, p->sizes[0] - longest % p->sizes[0], &added))
    return added;
  for (size_t i = 0; p->rule == PADDING_BUCKETS && i < p->size_count; i++)
    if (p->sizes[i] >= longest)
      return p->sizes[i];
  return longest;
}

int64_t padding_key(const padding_config *p, int64_t length)
{
  return p->rule == PADDING_BUCKETS ? padding_target(p, length) : 0;
}
