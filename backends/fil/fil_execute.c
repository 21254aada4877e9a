// SPDX-License-Identifier: Apache-2.0
// One prediction. Instances' threads.
#include "fil_model.h"

#include "backend_error.h"

#include <string.h>

#define TOGETHER_WALKS 4096 // walks through a tree; fewer take less time than waking threads

// The run's data, in its arena.
typedef struct fil_run {
  const float *rows;
  size_t row_count;
  float *values; // row_count * columns
} fil_run;

TRITONSERVER_Error *fil_instance_new(framework_instance *instance)
{
  return instance->kind == TRITONSERVER_INSTANCEGROUPKIND_GPU
             ? backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                             "KIND_GPU cannot be used in CPU-only build")
             : NULL;
}

TRITONSERVER_Error *fil_run_begin(framework_run *run)
{
  fil_run *self = arena_allocate_array(&run->memory, 1, sizeof(*self));
  if (self == NULL)
    return backend_error_no_memory("a batch");
  *self = (fil_run){0};
  run->state = self;
  return NULL;
}

TRITONSERVER_Error *fil_run_add_input(framework_run *run, const framework_input *input)
{
  fil_run *self = run->state;
  const size_t features = (size_t)fil_model_of(run->instance->model)->shape.features;
  size_t count = 0;
  BACKEND_RETURN_IF_ERROR(framework_element_count(input->name, input->dims, input->rank, &count));
  if (input->rank != 2 || (size_t)input->dims[1] != features ||
      input->byte_size != count * sizeof(float))
    return backend_error_invalid("input '%s' has %lld features, the model has %zu", input->name,
                                 (long long)(input->rank > 0 ? input->dims[input->rank - 1] : 0),
                                 features);
  self->rows = input->data;
  self->row_count = (size_t)input->dims[0];
  return NULL;
}

// ---- from treelite's values to the output's ----

// For each row the class with the largest value, the first of equal ones.
static void choose_classes(const float *values, size_t rows, size_t classes, float *labels)
{
  for (size_t i = 0; i < rows; i++, values += classes) {
    size_t best = 0;
    for (size_t k = 1; k < classes; k++)
      best = values[k] > values[best] ? k : best;
    labels[i] = (float)best;
  }
}

static void apply_threshold(float *values, size_t rows, float threshold)
{
  for (size_t i = 0; i < rows; i++)
    values[i] = values[i] > threshold ? 1.0f : 0.0f;
}

// Expands each probability to those of both classes.
static void add_other_class(const float *values, size_t rows, float *both)
{
  for (size_t i = 0; i < rows; i++) {
    both[2 * i] = 1.0f - values[i];
    both[2 * i + 1] = values[i];
  }
}

static TRITONSERVER_Error *finish(framework_run *run, float *values)
{
  const fil_model *model = fil_model_of(run->instance->model);
  fil_run *self = run->state;
  const size_t classes = (size_t)model->shape.classes, columns = (size_t)model->columns;
  self->values = values;
  if (model->parameters.is_classifier && !model->parameters.predict_proba && classes == 1)
    apply_threshold(values, self->row_count, model->parameters.threshold);
  if (columns == classes)
    return NULL;
  const size_t row_size = columns * sizeof(float);
  self->values = arena_allocate_array(&run->memory, self->row_count + 1, row_size);
  if (self->values == NULL)
    return backend_error_no_memory("a batch");
  if (columns == 1)
    choose_classes(values, self->row_count, classes, self->values);
  else
    add_other_class(values, self->row_count, self->values);
  return NULL;
}

TRITONSERVER_Error *fil_run_compute(framework_run *run)
{
  const framework_model *owner = run->instance->model;
  const treelite *t = treelite_of(owner);
  const fil_model *model = fil_model_of(owner);
  fil_run *self = run->state;
  const size_t rows = self->row_count, classes = (size_t)model->shape.classes;
  const size_t row_size = classes * sizeof(float);
  float *values = arena_allocate_array(&run->memory, rows + 1, row_size);
  if (values == NULL)
    return backend_error_no_memory("a batch");
  treelite_gtil *gtil = rows * model->shape.trees < TOGETHER_WALKS ? model->alone : model->together;
  if (rows > 0 && t->GTILPredict(model->trees, self->rows, "float32", rows, values, gtil) != 0)
    return backend_error_internal("treelite: %s", t->GetLastError());
  return finish(run, values);
}

// As in Triton's backend, a single value per row gives [rows].
TRITONSERVER_Error *fil_run_read_output(framework_run *run, size_t index, framework_output *output)
{
  const fil_run *self = run->state;
  const int32_t columns = fil_model_of(run->instance->model)->columns;
  (void)index;
  *output = (framework_output){
      .datatype = TRITONSERVER_TYPE_FP32,
      .shape = {.rank = columns > 1 ? 2 : 1, .dims = {(int64_t)self->row_count, columns}},
      .data = (const char *)self->values};
  return NULL;
}

void fil_run_end(framework_run *run)
{
  (void)run; // all memory is in the arena
}
