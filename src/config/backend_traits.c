// The table of backends.
#include "config/backend_traits.h"

#include <stddef.h>
#include <string.h>

// Two instances: these gain from overlapping two executions.
const backend_traits backend_table[] = {
    {.name = "tensorflow",
     .formats = {{"tensorflow_graphdef", "model.graphdef", MODEL_FILE_REGULAR, true},
                 {"tensorflow_savedmodel", "model.savedmodel", MODEL_FILE_DIRECTORY, true}},
     .cpu_instances = 2},
    {.name = "tensorrt", .formats = {{"tensorrt_plan", "model.plan", MODEL_FILE_REGULAR, false}}},
    {.name = "onnxruntime",
     .formats = {{"onnxruntime_onnx", "model.onnx", MODEL_FILE_ANY, false}},
     .cpu_instances = 2,
     .variable = "ORT_DISABLE_TELEMETRY", // why: backends/onnxruntime/onnxruntime.c
     .variable_value = "1"},
    {.name = "openvino", .formats = {{NULL, "model.xml", MODEL_FILE_ANY, false}}},
    {.name = "pytorch",
     .formats = {{"pytorch_libtorch", "model.pt", MODEL_FILE_REGULAR, false},
                 {"torch_aoti", "model.pt2", MODEL_FILE_REGULAR, true},
                 {"libtorch", "model.pt", MODEL_FILE_REGULAR, true}}},
    {.name = "python",
     .formats = {{NULL, "model.py", MODEL_FILE_ANY, false}},
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
