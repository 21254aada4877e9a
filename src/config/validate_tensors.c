// SPDX-License-Identifier: Apache-2.0
// The rules of a model's inputs and outputs. Called from load threads. Texts are Triton's, because
// tools and tests look for them; our own rules say what was expected.
#include "config/rules.h"

#include <inttypes.h>

// The parts of an input or output that the rules need.
typedef struct tensor_rule {
  const char *kind; // "input" or "output"
  size_t index;
  const char *name;
  int data_type;
  const int64_t *dims;
  size_t dim_count;
  const Inference__ModelTensorReshape *reshape; // or NULL
  bool is_shape_tensor;
  bool is_non_linear_format;
} tensor_rule;

// Triton ends the text with the model: "… for <model>".
#define REFUSE_TENSOR(r, t, path, fix, text, ...)                                                  \
  refuse(r, path, fix, "model %s '%s' " text " for %s", (t)->kind,                                 \
         (t)->name __VA_OPT__(, ) __VA_ARGS__, (r)->config->name)

static phrase path_of(const tensor_rule *t, const char *field)
{
  return say("%s[%zu].%s", t->kind, t->index, field);
}

static bool is_dimension(int64_t size)
{
  return size >= 1 || size == -1;
}

// False when the number of elements does not fit an int64; reports that.
static bool count_elements(rules *r, const tensor_rule *t, const char *what, const int64_t *dims,
                           size_t count, int64_t *elements)
{
  if (config_element_count(dims, count, elements))
    return true;
  refuse(r, path_of(t, is_text(what, "dims") ? "dims" : "reshape.shape").text, NULL,
         "element count for tensor '%s %s' exceeds maximum size of %" PRId64 " for %s", t->name,
         what, INT64_MAX, r->config->name);
  return false;
}

// ---- reshapes ----

// Product of the dimensions up to the next -1 or the end; *at moves after it. Cannot overflow: the
// product of all has been checked.
static int64_t chunk_elements(const int64_t *dims, size_t count, size_t *at)
{
  const size_t start = *at;
  while (*at < count && dims[*at] != -1)
    ++*at;
  int64_t product = -1;
  config_element_count(dims + start, *at - start, &product);
  ++*at;
  return product;
}

static size_t count_variable(const int64_t *dims, size_t count)
{
  size_t variable = 0;
  for (size_t i = 0; i < count; i++)
    variable += dims[i] == -1;
  return variable;
}

#define SAME_SIZE "both must have the same number of elements"

// The fixed stretches between variable dimensions must agree: [2,4,-1,6] may become [8,-1,1,6].
static void check_variable_reshape(rules *r, const tensor_rule *t)
{
  size_t stretches = count_variable(t->dims, t->dim_count) + 1;
  if (stretches != count_variable(t->reshape->shape, t->reshape->n_shape) + 1) {
    REFUSE_TENSOR(r, t, path_of(t, "reshape.shape").text, "give both as many -1",
                  "has different number of variable-size dimensions for dims and reshape");
    return;
  }
  size_t at_dim = 0;
  size_t at_shape = 0;
  for (size_t i = 0; i < stretches; i++) {
    if (chunk_elements(t->dims, t->dim_count, &at_dim) ==
        chunk_elements(t->reshape->shape, t->reshape->n_shape, &at_shape))
      continue;
    REFUSE_TENSOR(r, t, path_of(t, "reshape.shape").text,
                  "between two -1 both must have the same number of elements",
                  "has different size for dims and reshape");
    return;
  }
}

static void check_reshape_size(rules *r, const tensor_rule *t)
{
  int64_t elements;
  int64_t reshaped; // 1 for an empty shape: a scalar
  if (!count_elements(r, t, "dims", t->dims, t->dim_count, &elements) ||
      !count_elements(r, t, "reshape", t->reshape->shape, t->reshape->n_shape, &reshaped))
    return;
  if (elements != reshaped)
    REFUSE_TENSOR(r, t, path_of(t, "reshape.shape").text, SAME_SIZE,
                  "has different size for dims and reshape");
  else if (elements == -1)
    check_variable_reshape(r, t);
}

static bool check_reshape(rules *r, const tensor_rule *t)
{
  bool right = true;
  for (size_t i = 0; i < t->reshape->n_shape; i++) {
    if (is_dimension(t->reshape->shape[i]))
      continue;
    REFUSE_TENSOR(r, t, say("%s[%zu].reshape.shape[%zu]", t->kind, t->index, i).text, NULL,
                  "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size "
                  "dimension");
    right = false;
  }
  return right;
}

// ---- dimensions and names ----

static void check_dims(rules *r, const tensor_rule *t)
{
  if (t->dim_count == 0)
    REFUSE_TENSOR(r, t, path_of(t, "dims").text,
                  "give the shape without the batch dimension, -1 for any size",
                  "must specify 'dims'");
  if (t->reshape != NULL && t->reshape->n_shape == 0 && r->config->max_batch_size == 0)
    REFUSE_TENSOR(r, t, path_of(t, "reshape").text, "give the reshape a shape, or leave it out",
                  "cannot have empty reshape for non-batching model as scalar tensors are not "
                  "supported");
  bool right = true;
  for (size_t i = 0; i < t->dim_count; i++) {
    if (is_dimension(t->dims[i]))
      continue;
    REFUSE_TENSOR(r, t, say("%s[%zu].dims[%zu]", t->kind, t->index, i).text,
                  "use -1 where any size goes",
                  "dimension must be integer >= 1, or -1 to indicate a variable-size dimension");
    right = false;
  }
  if (t->reshape != NULL)
    right = check_reshape(r, t) && right;
  if (!right || t->dim_count == 0)
    return;
  int64_t elements;
  if (t->reshape != NULL)
    check_reshape_size(r, t);
  else
    count_elements(r, t, "dims", t->dims, t->dim_count, &elements);
}

static void check_tensor(rules *r, const tensor_rule *t)
{
  if (is_text(t->name, ""))
    refuse(r, path_of(t, "name").text, "give the name that the model has for it",
           "model %s must specify 'name' for %s", t->kind, r->config->name);
  if (datatype_by_value(t->data_type) == NULL)
    REFUSE_TENSOR(r, t, path_of(t, "data_type").text, "for example data_type: TYPE_FP32",
                  "must specify 'data_type'");
  check_dims(r, t);
}

// Properties that only TensorRT's tensors may have.
static void check_format(rules *r, const tensor_rule *t)
{
  const bool tensorrt = is_text(r->config->platform, PLATFORM_TENSORRT);
  const phrase format = path_of(t, "is_non_linear_format_io");
  if (t->is_shape_tensor && !tensorrt)
    refuse(r, path_of(t, "is_shape_tensor").text, "leave it out",
           "shape tensors are only supported for TensorRT platform for %s", r->config->name);
  if (t->is_non_linear_format && !tensorrt)
    refuse(r, format.text, "leave it out",
           "Non-linear IO format is only supported for the TensorRT platform for %s",
           r->config->name);
  else if (t->is_non_linear_format && t->dim_count != 3)
    refuse(r, format.text, NULL, "Non-linear IO format %s requires 3 dims for %s", t->kind,
           r->config->name);
}

// A request could reach only one of two tensors with the same name.
static void check_unique(rules *r, const tensor_rule *t, string_map *seen)
{
  if (rules_repeats(r, seen, t->name) && !is_text(t->name, ""))
    refuse(r, path_of(t, "name").text, "leave one of them out",
           "model %s '%s' is specified more than once for %s", t->kind, t->name, r->config->name);
}

static void check_input(rules *r, const Inference__ModelInput *input, size_t index,
                        string_map *seen)
{
  const tensor_rule t = {"input",
                         index,
                         input->name,
                         (int)input->data_type,
                         input->dims,
                         input->n_dims,
                         input->reshape,
                         input->is_shape_tensor,
                         input->is_non_linear_format_io};
  check_tensor(r, &t);
  if (input->format != INFERENCE__MODEL_INPUT__FORMAT__FORMAT_NONE && input->n_dims != 3)
    refuse(r, path_of(&t, "format").text, "the dims of one image, or leave format out",
           "model input NHWC/NCHW require 3 dims for %s", r->config->name);
  check_format(r, &t);
  check_unique(r, &t, seen);
}

static void check_output(rules *r, const Inference__ModelOutput *output, size_t index,
                         string_map *seen)
{
  const tensor_rule t = {"output",
                         index,
                         output->name,
                         (int)output->data_type,
                         output->dims,
                         output->n_dims,
                         output->reshape,
                         output->is_shape_tensor,
                         output->is_non_linear_format_io};
  check_tensor(r, &t);
  check_format(r, &t);
  check_unique(r, &t, seen);
}

void rules_tensors(rules *r)
{
  const Inference__ModelConfig *config = r->config;
  string_map inputs = {0}, outputs = {0};
  for (size_t i = 0; i < config->n_input; i++)
    check_input(r, config->input[i], i, &inputs);
  for (size_t i = 0; i < config->n_output; i++)
    check_output(r, config->output[i], i, &outputs);
  rules_batch_tensors(r, &inputs, &outputs);
  string_map_fini(&inputs);
  string_map_fini(&outputs);
}
