// SPDX-License-Identifier: Apache-2.0
// Zeros, random bytes, or a file's content, as the configuration says. Load threads.
#include "core/warmup_samples.h"

#include "base/log.h"
#include "config/config.h"
#include "core/tensor_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#define FOLDER             "warmup/"
#define MAX_BATCH_REQUESTS 65536

typedef Inference__ModelWarmup__Input warmup_input;

static error *find_size(const char *name, const warmup_input *input, size_t *size)
{
  for (size_t i = 0; i < input->n_dims; i++)
    if (input->dims[i] < 0)
      return error_new(ERROR_INVALID_ARG,
                       "warmup setting expects all variable-size dimensions are specified for "
                       "input '%s'",
                       name);
  if (tensor_least_bytes((TRITONSERVER_DataType)input->data_type, input->dims, input->n_dims, size))
    return NULL;
  int64_t elements;
  bool is_text = input->data_type == INFERENCE__DATA_TYPE__TYPE_STRING;
  bool fits = shape_element_count(input->dims, input->n_dims, &elements);
  return error_new(ERROR_INVALID_ARG, "%s for tensor '%s' exceeds maximum size of %" PRId64,
                   is_text && !fits ? "element count" : "byte size", name, INT64_MAX);
}

static error *fill_randomly(void *data, size_t size)
{
  for (size_t done = 0; done < size;) {
    ssize_t got = getrandom((char *)data + done, size - done, 0);
    if (got > 0)
      done += (size_t)got;
    else if (errno != EINTR)
      return error_new(ERROR_INTERNAL, "failed to get random bytes: %m");
  }
  return NULL;
}

// Reads as many bytes as the tensor has; for strings the whole file.
static error *read_file(const model *m, const warmup_input *input, warmup_tensor *t)
{
  size_t expected = t->size;
  const char *name = input->input_data_file;
  RETURN_IF_ERROR(model_read_tensor(m, FOLDER, name, t->datatype, &t->data, &t->size));
  return t->size >= expected || t->datatype == TRITONSERVER_TYPE_BYTES
             ? NULL
             : error_new(ERROR_INVALID_ARG,
                         "warmup setting expects %zu bytes, but the data provided from %s only has "
                         "%zu bytes",
                         expected, name, t->size);
}

static error *make_data(const model *m, const warmup_input *input, warmup_tensor *t)
{
  bool is_text = t->datatype == TRITONSERVER_TYPE_BYTES;
  switch (input->input_data_type_case) {
  case INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_INPUT_DATA_FILE:
    return read_file(m, input, t);
  case INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_ZERO_DATA:
  case INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_RANDOM_DATA:
    t->data = calloc(t->size + 1, 1);
    if (t->data == NULL)
      return error_no_memory();
    if (!is_text &&
        input->input_data_type_case == INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE_RANDOM_DATA)
      return fill_randomly(t->data, t->size);
    return NULL;
  default:
    return error_new(ERROR_INVALID_ARG,
                     "warmup setting expects input '%s' to have input_data_type set", t->name);
  }
}

static error *make_tensor(const model *m, const Inference__ModelWarmup__InputsEntry *entry,
                          warmup_tensor *t)
{
  const warmup_input *input = entry->value;
  *t = (warmup_tensor){
      .name = entry->key,
      .dims = input->dims,
      .dim_count = input->n_dims,
      .datatype = (TRITONSERVER_DataType)input->data_type,
  };
  RETURN_IF_ERROR(find_size(t->name, input, &t->size));
  return make_data(m, input, t);
}

static error *make_sample(const model *m, const Inference__ModelWarmup *setting, warmup_sample *s)
{
  *s = (warmup_sample){
      .name = setting->name,
      .batch_size = setting->batch_size,
      .count = setting->count > 0 ? setting->count : 1,
      .tensors = calloc(setting->n_inputs + 1, sizeof(*s->tensors)),
  };
  if (s->tensors == NULL)
    return error_no_memory();
  if (s->batch_size > MAX_BATCH_REQUESTS)
    return error_new(ERROR_INVALID_ARG, "batch_size is %" PRIu32 ", expected at most %d",
                     s->batch_size, MAX_BATCH_REQUESTS);
  for (size_t i = 0; i < setting->n_inputs; i++)
    RETURN_IF_ERROR(make_tensor(m, setting->inputs[i], &s->tensors[s->tensor_count++]));
  return NULL;
}

error *warmup_samples_init(warmup_samples *samples, const model *m)
{
  const Inference__ModelConfig *config = m->config;
  *samples = (warmup_samples){.items = calloc(config->n_model_warmup + 1, sizeof(warmup_sample))};
  if (samples->items == NULL)
    return error_no_memory();
  for (size_t i = 0; i < config->n_model_warmup; i++) {
    const Inference__ModelWarmup *setting = config->model_warmup[i];
    if (setting->batch_size == 0) {
      log_verbose(1, "Skipping batch 0 warmup sample '%s'", setting->name);
      continue;
    }
    log_verbose(1, "Generating warmup sample data for '%s'", setting->name);
    error *e = make_sample(m, setting, &samples->items[samples->count++]);
    if (e != NULL)
      return error_wrap(e, "failed to prepare warmup sample '%s'", setting->name);
  }
  return NULL;
}

void warmup_samples_fini(warmup_samples *samples)
{
  for (size_t i = 0; i < samples->count; i++) {
    warmup_sample *s = &samples->items[i];
    for (size_t k = 0; k < s->tensor_count; k++)
      free(s->tensors[k].data);
    free(s->tensors);
  }
  free(samples->items);
  *samples = (warmup_samples){0};
}
