// SPDX-License-Identifier: Apache-2.0
// The table of backends.
#include "config/backend_traits.h"

#include "config/suggestion.h"

#include <stddef.h>
#include <string.h>

// Two instances: the backend gains from overlapping executions.
const backend_traits backend_table[] = {
    {.name = "tensorflow",
     .formats = {{"tensorflow_graphdef", "model.graphdef", MODEL_FILE_REGULAR, true, NULL, NULL,
                  false},
                 {"tensorflow_savedmodel", "model.savedmodel", MODEL_FILE_DIRECTORY, true,
                  "saved_model.pb", NULL, false}},
     .cpu_instances = 2},
    {.name = "tensorrt",
     .formats = {{"tensorrt_plan", "model.plan", MODEL_FILE_REGULAR, false, NULL, NULL, false}}},
    {.name = "onnxruntime",
     .formats = {{"onnxruntime_onnx", "model.onnx", MODEL_FILE_ANY, false, NULL, NULL, false}},
     .cpu_instances = 2,
     .variable = "ORT_DISABLE_TELEMETRY", // why: backends/onnxruntime/onnxruntime.c
     .variable_value = "1"},
    // The first file is Triton's; the last row is for a configuration that names only the backend.
    {.name = "openvino",
     .formats = {{NULL, "model.xml", MODEL_FILE_ANY, true, NULL, ".bin", false},
                 {NULL, "model.onnx", MODEL_FILE_REGULAR, true, NULL, NULL, true},
                 {NULL, "model.tflite", MODEL_FILE_REGULAR, true, NULL, NULL, false},
                 {NULL, "model.pdmodel", MODEL_FILE_REGULAR, true, NULL, ".pdiparams", false},
                 {NULL, "model.saved_model", MODEL_FILE_DIRECTORY, true, NULL, NULL, true},
                 {NULL, "model.savedmodel", MODEL_FILE_DIRECTORY, true, NULL, NULL, true},
                 {NULL, "model.xml", MODEL_FILE_ANY, false, NULL, ".bin", false}}},
    {.name = "pytorch",
     .variable = "AOTI_RUNTIME_CHECK_INPUTS", // why: backends/pytorch/pytorch.c
     .variable_value = "1",
     .formats = {{"pytorch_libtorch", "model.pt", MODEL_FILE_REGULAR, false, NULL, NULL, false},
                 {"torch_aoti", "model.pt2", MODEL_FILE_REGULAR, true, NULL, NULL, false},
                 {"libtorch", "model.pt", MODEL_FILE_REGULAR, true, NULL, NULL, false}}},
    {.name = "fil", .omits_single_sizes = true},
    {.name = "python",
     .formats = {{NULL, "model.py", MODEL_FILE_ANY, false, NULL, NULL, false}},
     .runtime = "model.py",
     .environment = "pb_exec_env_model.py.tar.gz",
     .environment_parameter = "EXECUTION_ENV_PATH"},
    {.name = NULL},
};

const backend_traits *backend_traits_of(const char *name)
{
  const backend_traits *t = backend_table;
  while (t->name != NULL && strcmp(t->name, name) != 0)
    t++;
  return t;
}

const backend_traits *backend_traits_runner(void)
{
  const backend_traits *t = backend_table;
  while (t->name != NULL && t->runtime == NULL)
    t++;
  return t;
}

const char *backend_traits_nearest(const char *name)
{
  suggestion nearest = suggestion_of(slice_of(name));
  for (const backend_traits *b = backend_table; b->name != NULL; b++)
    suggestion_consider(&nearest, b->name);
  return nearest.best != NULL && strcmp(nearest.best, name) != 0 ? nearest.best : NULL;
}

static const struct {
  const char *name;
  bool completes_named;
} own_backends[] = {
    {"fil", false},     {"identity", false}, {"onnxruntime", false}, {"openvino", false},
    {"pytorch", false}, {"python", true},    {"tensorflow", true},
};

#define OWN_BACKENDS (sizeof(own_backends) / sizeof(own_backends[0]))

// The index in own_backends, or OWN_BACKENDS.
static size_t find_own(const char *name)
{
  size_t i = 0;
  while (i < OWN_BACKENDS && strcmp(own_backends[i].name, name) != 0)
    i++;
  return i;
}

bool backend_is_own(const char *name)
{
  return find_own(name) < OWN_BACKENDS;
}

bool backend_completes_named(const char *name)
{
  const size_t i = find_own(name);
  return i == OWN_BACKENDS ? name[0] != '\0' : own_backends[i].completes_named;
}
