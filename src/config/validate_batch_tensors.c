// SPDX-License-Identifier: Apache-2.0
// The rules of batch inputs (made for a whole batch) and batch outputs (split over its requests).
// Called by validate_tensors.c. Texts are Triton's.
#include "config/rules.h"
#include "config/suggestion.h"

#define MAX_COMPARED 256 // names compared with an unknown one

// Whether `name` is among the model's inputs or outputs; reports it if not.
static bool is_known(rules *r, const string_map *names, const char *name, const char *path,
                     const char *what)
{
  if (string_map_get(names, slice_of(name)) != NULL)
    return true;
  suggestion s = suggestion_of(slice_of(name));
  const string_map_entry *entry;
  for (size_t i = 0;
       i < MAX_COMPARED && !rules_over(r) && (entry = string_map_walk(names, &i)) != NULL;)
    suggestion_consider(&s, entry->key);
  refuse(r, path, s.best != NULL ? say("did you mean '%s'?", s.best).text : NULL,
         "unknown %s name '%s' for %s", what, name, r->config->name);
  return false;
}

static void check_sources(rules *r, const string_map *inputs, char *const *names, size_t count,
                          const char *path)
{
  for (size_t i = 0; i < count; i++)
    is_known(r, inputs, names[i], say("%s.source_input[%zu]", path, i).text, "source input");
}

static void check_source_count(rules *r, const char *what, const ProtobufCEnumDescriptor *kinds,
                               int kind, size_t count, const char *path)
{
  if (count != 1)
    refuse(r, say("%s.source_input", path).text, NULL,
           "batch %s kind '%s' expects 1 source input, got %zu for %s", what,
           protobuf_c_enum_descriptor_get_value(kinds, kind)->name, count, r->config->name);
}

static void check_input(rules *r, size_t index, const string_map *inputs)
{
  const Inference__BatchInput *input = r->config->batch_input[index];
  const phrase path = say("batch_input[%zu]", index);
  check_source_count(r, "input", &inference__batch_input__kind__descriptor, (int)input->kind,
                     input->n_source_input, path.text);
  if (input->data_type != INFERENCE__DATA_TYPE__TYPE_INT32 &&
      input->data_type != INFERENCE__DATA_TYPE__TYPE_FP32)
    refuse(r, say("%s.data_type", path.text).text, NULL,
           "batch input data type must be TYPE_INT32 or TYPE_FP32 for %s", r->config->name);
  check_sources(r, inputs, input->source_input, input->n_source_input, path.text);
}

static void check_output(rules *r, size_t index, const string_map *inputs,
                         const string_map *outputs)
{
  const Inference__BatchOutput *output = r->config->batch_output[index];
  const phrase path = say("batch_output[%zu]", index);
  check_source_count(r, "output", &inference__batch_output__kind__descriptor, (int)output->kind,
                     output->n_source_input, path.text);
  check_sources(r, inputs, output->source_input, output->n_source_input, path.text);
  string_map seen = {0};
  for (size_t i = 0; i < output->n_target_name; i++) {
    const char *name = output->target_name[i];
    const phrase at = say("%s.target_name[%zu]", path.text, i);
    if (is_known(r, outputs, name, at.text, "target output") && rules_repeats(r, &seen, name))
      refuse(r, at.text, NULL, "target output name '%s' can only be specified once for %s", name,
             r->config->name);
  }
  string_map_fini(&seen);
}

void rules_batch_tensors(rules *r, const string_map *inputs, const string_map *outputs)
{
  for (size_t i = 0; i < r->config->n_batch_input; i++)
    check_input(r, i, inputs);
  for (size_t i = 0; i < r->config->n_batch_output; i++)
    check_output(r, i, inputs, outputs);
}
