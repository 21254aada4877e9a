// SPDX-License-Identifier: Apache-2.0
// A configuration's settings for sessions. docs/tensorflow.md lists the parameters. Field numbers
// are those of TensorFlow's config.proto.
#include "tf_model.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/buffer.h"
#include "base/machine.h"
#include "base/proto_write.h"

#include <string.h>

#define MAX_THREADS 4096

#define CONFIG_DEVICE_COUNT      1
#define CONFIG_INTRA_THREADS     2
#define CONFIG_INTER_THREADS     5
#define CONFIG_GPU               6
#define CONFIG_SOFT_PLACEMENT    7
#define CONFIG_SESSION_THREADS   9
#define CONFIG_GRAPH             10
#define CONFIG_EXPERIMENTAL      16
#define EXPERIMENTAL_NO_SPINNING 9
#define GPU_MEMORY_FRACTION      1
#define GPU_GROWTH               4
#define GRAPH_OPTIMIZER          3
#define OPTIMIZER_JIT            5
#define MAP_KEY                  1
#define MAP_VALUE                2

// ---- parameters ----

static TRITONSERVER_Error *read_number(const framework_model *model, const char *key, int64_t least,
                                       const char *expected, int64_t *value)
{
  const char *text = backend_parameter(model->config, key);
  char where[512];
  snprintf(where, sizeof(where), "model '%.256s': parameter", model->name);
  BACKEND_RETURN_IF_ERROR(backend_read_integer(where, key, text, INT32_MIN, MAX_THREADS, value));
  if (text == NULL || *value >= least)
    return NULL;
  return backend_error_invalid("parameter '%s' must be %s number for TensorFlow model '%s'", key,
                               expected, model->name);
}

// TensorFlow's default is one thread for each processor of the machine. Threads between operators
// gain nothing for most models, and make a model of few operators four times slower. The instance's
// thread therefore runs the operators unless a number is given; 0 is TensorFlow's default.
static TRITONSERVER_Error *read_threads(const framework_model *model, tf_options *options)
{
  options->inter_threads = -1;
  BACKEND_RETURN_IF_ERROR(
      read_number(model, "TF_NUM_INTRA_THREADS", 0, "non-negative", &options->intra_threads));
  BACKEND_RETURN_IF_ERROR(
      read_number(model, "TF_NUM_INTER_THREADS", INT32_MIN, "any", &options->inter_threads));
  if (options->intra_threads == 0)
    options->intra_threads = machine_cpus();
  if (options->inter_threads == 0)
    options->inter_threads = machine_cpus();
  return framework_read_switch(model, "TF_USE_PER_SESSION_THREADS", &options->session_threads);
}

static const json_t *optimization_of(const framework_model *model, const char *key)
{
  return json_object_get(json_object_get(model->config, "optimization"), key);
}

static int64_t read_jit(const framework_model *model)
{
  const int64_t level =
      json_integer_value(json_object_get(optimization_of(model, "graph"), "level"));
  return level > 2 ? 2 : level < -1 ? 0 : level;
}

// Triton's texts. GPU accelerators exist only in builds for GPUs.
TRITONSERVER_Error *tf_check_accelerators(const framework_model *model,
                                          TRITONSERVER_InstanceGroupKind kind)
{
  static const char *const known[] = {"tensorrt", "gpu_io", "auto_mixed_precision"};
  const json_t *all = optimization_of(model, "execution_accelerators");
  const json_t *gpu = json_object_get(all, "gpu_execution_accelerator");
  if (json_array_size(json_object_get(all, "cpu_execution_accelerator")) > 0)
    return backend_error_invalid(
        "CPU Execution Accelerator is not supported in TensorFlow backend");
  if (json_array_size(gpu) > 0)
    BACKEND_LOG_WARN("GPU Execution Accelerator will be ignored for model instance on CPU (model "
                     "'%s')",
                     model->name);
  for (size_t i = 0; i < json_array_size(gpu); i++) {
    const char *name = backend_json_text(json_array_get(gpu, i), "name");
    bool found = kind == TRITONSERVER_INSTANCEGROUPKIND_CPU; // ignored there
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
      found = found || strcmp(name, known[k]) == 0;
    if (!found)
      return backend_error_invalid("unknown Execution Accelerator '%s' is requested", name);
  }
  return NULL;
}

static const char *text_parameter(const framework_model *model, const char *key)
{
  const char *text = backend_parameter(model->config, key);
  return text != NULL ? text : "";
}

TRITONSERVER_Error *tf_options_read(const framework_model *model, tf_options *options)
{
  *options = (tf_options){.tag = text_parameter(model, "TF_GRAPH_TAG"),
                          .signature = text_parameter(model, "TF_SIGNATURE_DEF"),
                          .instances_per_session = 1,
                          .jit = read_jit(model)};
  BACKEND_RETURN_IF_ERROR(read_number(model, "MAX_SESSION_SHARE_COUNT", 1, "positive",
                                      &options->instances_per_session));
  return read_threads(model, options);
}

// ---- ConfigProto ----

static void append_gpu(buffer *out, const tf_settings *settings,
                       TRITONSERVER_InstanceGroupKind kind)
{
  if (kind == TRITONSERVER_INSTANCEGROUPKIND_CPU) { // allocates no GPU memory
    const size_t entry = proto_begin(out, CONFIG_DEVICE_COUNT);
    proto_append_text(out, MAP_KEY, "GPU");
    proto_append_integer(out, MAP_VALUE, 0);
    proto_end(out, entry);
  }
  const size_t gpu = proto_begin(out, CONFIG_GPU);
  if (settings->gpu_memory_fraction > 0)
    proto_append_double(out, GPU_MEMORY_FRACTION, settings->gpu_memory_fraction);
  else
    proto_append_integer(out, GPU_GROWTH, true);
  proto_end(out, gpu);
}

static void append_config(buffer *out, const tf_options *options, const tf_settings *settings,
                          TRITONSERVER_InstanceGroupKind kind)
{
  proto_append_integer(out, CONFIG_INTRA_THREADS, (uint64_t)options->intra_threads);
  proto_append_integer(out, CONFIG_INTER_THREADS, (uint64_t)options->inter_threads);
  proto_append_integer(out, CONFIG_SOFT_PLACEMENT, settings->soft_placement);
  proto_append_integer(out, CONFIG_SESSION_THREADS, options->session_threads);
  append_gpu(out, settings, kind);
  // A spinning thread would take processor time from other models.
  const size_t experimental = proto_begin(out, CONFIG_EXPERIMENTAL);
  proto_append_integer(out, EXPERIMENTAL_NO_SPINNING, true);
  proto_end(out, experimental);
  const size_t graph = proto_begin(out, CONFIG_GRAPH);
  const size_t optimizer = proto_begin(out, GRAPH_OPTIMIZER);
  proto_append_integer(out, OPTIMIZER_JIT, (uint64_t)options->jit);
  proto_end(out, optimizer);
  proto_end(out, graph);
}

TRITONSERVER_Error *tf_session_options(const framework_model *model,
                                       TRITONSERVER_InstanceGroupKind kind,
                                       tf_api_session_options **result)
{
  const tf_api *api = tf_api_of(model);
  AUTO_BUFFER buffer config = BUFFER_EMPTY;
  append_config(&config, &tf_model_of(model)->options, tf_settings_of(model), kind);
  *result = NULL;
  if (config.failed)
    return backend_error_no_memory("a session's options");
  tf_api_status *status = api->NewStatus();
  *result = api->NewSessionOptions();
  if (*result != NULL && status != NULL)
    api->SetConfig(*result, config.data, config.size, status);
  TRITONSERVER_Error *error = tf_error(api, *result != NULL ? status : NULL, NULL);
  api->DeleteStatus(status);
  return error;
}
