// SPDX-License-Identifier: Apache-2.0
// Compares, counts and reports outputs; see output_check.h.
#include "request/output_check.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/log.h"

#include <string.h>

// Whether `dims` are the configured ones without the sizes of 1.
static bool fits_without_singles(const int64_t *wanted, uint32_t wanted_count, const int64_t *dims,
                                 uint32_t dim_count)
{
  uint32_t at = 0;
  for (uint32_t i = 0; i < wanted_count; i++) {
    if (wanted[i] == 1)
      continue;
    if (at == dim_count || !signature_dims_match(&wanted[i], &dims[at], 1))
      return false;
    at++;
  }
  return at == dim_count;
}

bool output_fits(const request_target *target, const tensor_signature *output,
                 TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t dim_count)
{
  uint32_t batch = target->signature.max_batch_size > 0;
  const int64_t *wanted = output->has_reshape ? output->reshape : output->dims;
  uint32_t wanted_count = output->has_reshape ? output->reshape_count : output->dim_count;
  if (datatype != output->datatype || dim_count < batch)
    return false;
  return (dim_count == wanted_count + batch &&
          signature_dims_match(wanted, dims + batch, wanted_count)) ||
         (target->signature.omits_single_sizes &&
          fits_without_singles(wanted, wanted_count, dims + batch, dim_count - batch));
}

static void append_tensor(buffer *text, TRITONSERVER_DataType datatype, const int64_t *dims,
                          uint32_t dim_count, bool batched)
{
  buffer_append_text(text, datatype_name(datatype));
  buffer_append_char(text, ' ');
  signature_append_dims(text, dims, dim_count, batched);
}

// Reports `text` as the error or, the `first` time, as a warning.
static error *judge(const request_target *target, buffer *text, bool first, const char *fate)
{
  buffer_append_char(text, '\0');
  if (text->failed)
    return error_no_memory();
  if (target->signature.strict_outputs)
    return error_new(ERROR_INTERNAL, "%s", text->data);
  const log_subject subject = {
      .model = target->name, .version = target->version, .keys_only = true};
  if (first)
    log_warning_about(&subject,
                      "%s; %s. Mend the model or its configuration; --strict-outputs refuses such "
                      "outputs. This is told once for each output, nereid_output_mismatch_total "
                      "counts them",
                      text->data, fate);
  return NULL;
}

// True for the first.
static bool count(const request_target *target, size_t index)
{
  _Atomic uint64_t *counter = &target->signature.output_mismatches->counts[index];
  return atomic_fetch_add_explicit(counter, 1, memory_order_relaxed) == 0;
}

static size_t index_of(const request_target *target, const tensor_signature *output)
{
  return (size_t)(output - target->signature.outputs);
}

error *output_misfit(const request_target *target, const tensor_signature *output,
                     TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t dim_count)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  bool first = count(target, index_of(target, output));
  if (!first && !target->signature.strict_outputs)
    return NULL;
  const int64_t *wanted = output->has_reshape ? output->reshape : output->dims;
  uint32_t wanted_count = output->has_reshape ? output->reshape_count : output->dim_count;
  buffer_append_format(&text, "output '%s' of model '%s' is ", output->name.data, target->name);
  append_tensor(&text, datatype, dims, dim_count, false);
  buffer_append_text(&text, ", the model's configuration says ");
  append_tensor(&text, output->datatype, wanted, wanted_count,
                target->signature.max_batch_size > 0);
  return judge(target, &text, first, "it is sent as the model made it");
}

error *output_repeated(const request_target *target, const tensor_signature *output)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  bool first = count(target, index_of(target, output));
  if (!first && !target->signature.strict_outputs)
    return NULL;
  buffer_append_format(&text, "model '%s' gave the output '%s' twice in one response", target->name,
                       output->name.data);
  return judge(target, &text, first, "both are sent");
}

// Whether to log this name: a model may make up any number of them, and only the first are logged.
static bool is_new_name(output_mismatches *mismatches, const char *name)
{
  char *copy AUTO_FREE = NULL;
  for (size_t i = 0; i < OUTPUT_NAMES_LOGGED; i++) {
    char *logged = atomic_load(&mismatches->names_logged[i]);
    if (logged == NULL && copy == NULL && (copy = strdup(name)) == NULL)
      return false;
    if (logged == NULL &&
        atomic_compare_exchange_strong(&mismatches->names_logged[i], &logged, copy)) {
      copy = NULL;
      return true;
    }
    if (strcmp(logged, name) == 0)
      return false;
  }
  return false;
}

error *output_unconfigured(const request_target *target, const char *name)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  count(target, target->signature.output_count);
  bool first = is_new_name(target->signature.output_mismatches, name);
  if (!first && !target->signature.strict_outputs)
    return NULL;
  buffer_append_format(&text,
                       "model '%s' gave the output '%.256s', its configuration has none of "
                       "that name",
                       target->name, name);
  return judge(target, &text, first, "it is left out");
}
