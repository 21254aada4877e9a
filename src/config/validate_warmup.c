// SPDX-License-Identifier: Apache-2.0
// The rules of warm-up samples that need no file, for config_diagnose; a load applies its own when
// it makes the samples. Texts are Triton's.
#include "config/rules.h"

// Triton's prefix for a request without an id.
#define REQUEST "[request id: <id_unknown>] "

static void check_input(rules *r, const Inference__ModelWarmup *sample, size_t index, size_t input)
{
  const Inference__ModelWarmup__InputsEntry *entry = sample->inputs[input];
  const Inference__ModelWarmup__Input *value = entry->value;
  const phrase path = say("model_warmup[%zu].inputs[\"%s\"]", index, entry->key);
  for (size_t i = 0; i < value->n_dims; i++) {
    if (value->dims[i] < 0) {
      refuse(r, say("%s.dims[%zu]", path.text, i).text, "give the size that the sample has",
             "warmup setting expects all variable-size dimensions are specified for input '%s'",
             entry->key);
      return;
    }
  }
  int64_t elements;
  if (!config_element_count(value->dims, value->n_dims, &elements))
    refuse(r, say("%s.dims", path.text).text, NULL,
           "%s for tensor '%s' exceeds maximum size of %lld",
           value->data_type == INFERENCE__DATA_TYPE__TYPE_STRING ? "element count" : "byte size",
           entry->key, (long long)INT64_MAX);
  if (value->input_data_type_case == INFERENCE__MODEL_WARMUP__INPUT__INPUT_DATA_TYPE__NOT_SET)
    refuse(r, path.text, "set zero_data: true, random_data: true or input_data_file",
           REQUEST "warmup setting expects input '%s' to have input_data_type set", entry->key);
}

void rules_warmup(rules *r)
{
  for (size_t i = 0; i < r->config->n_model_warmup; i++) {
    const Inference__ModelWarmup *sample = r->config->model_warmup[i];
    for (size_t j = 0; sample->batch_size > 0 && j < sample->n_inputs; j++)
      check_input(r, sample, i, j);
  }
}
