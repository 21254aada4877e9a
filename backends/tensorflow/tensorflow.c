// SPDX-License-Identifier: Apache-2.0
// The tensorflow backend: where TensorFlow is found, its settings, and the steps of its models.
#include "tf_model.h"

#include "backend_error.h"
#include "base/text.h"

#include <stdlib.h>

#define TENSOR_ALIGNMENT 64 // TensorFlow copies data that is less aligned than its widest vectors

// Otherwise TensorFlow writes build information to stderr, once. An operator's value stays.
static void make_quiet(void)
{
  setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0);
}

static TRITONSERVER_Error *read_fraction(const char *text, double *fraction)
{
  if (text == NULL || (text_to_double(slice_of(text), fraction) && *fraction >= 0))
    return NULL;
  return backend_error_invalid("--backend-config=tensorflow: gpu-memory-fraction is '%s', expected "
                               "a number that is not negative",
                               text);
}

static TRITONSERVER_Error *read_settings(const json_t *given, void **result)
{
  tf_settings *settings = calloc(1, sizeof(*settings));
  *result = settings;
  if (settings == NULL)
    return backend_error_no_memory("the backend");
  settings->soft_placement = true;
  BACKEND_RETURN_IF_ERROR(
      backend_read_bool("--backend-config=tensorflow", "allow-soft-placement",
                        json_string_value(json_object_get(given, "allow-soft-placement")),
                        &settings->soft_placement));
  return read_fraction(json_string_value(json_object_get(given, "gpu-memory-fraction")),
                       &settings->gpu_memory_fraction);
}

const framework_functions framework_definition = {
    .framework = {.name = "TensorFlow",
                  .backend = "tensorflow",
                  .package = "tensorflow",
                  .dir = "tensorflow",
                  .library = "libtensorflow_cc.so.2",
                  .loader_names = {"libtensorflow_cc.so.2", "libtensorflow_cc.so"}},
    .alignment = TENSOR_ALIGNMENT,
    .names_first = true,
    .set_environment = make_quiet,
    .read_settings = read_settings,
    .open = tf_runtime_open,
    .close = tf_runtime_close,
    .load = tf_model_load,
    .complete = tf_model_complete,
    .unload = tf_model_unload,
    .instance_new = tf_instance_new,
    .instance_free = tf_instance_free,
    .begin = tf_run_begin,
    .add_input = tf_run_add_input,
    .compute = tf_run_compute,
    .read_output = tf_run_read_output,
    .end = tf_run_end,
};
