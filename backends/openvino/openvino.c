// SPDX-License-Identifier: Apache-2.0
// The openvino backend: where OpenVINO is found, and the steps of its models.
#include "ov_model.h"

#include <signal.h>

// OpenVINO gives the thread that opens a device an alternate signal stack, and unmaps it with the
// core, on any thread: the thread must keep its own.
static TRITONSERVER_Error *take_step(TRITONSERVER_Error *(*step)(framework_model *),
                                     framework_model *model)
{
  stack_t own;
  const bool known = sigaltstack(NULL, &own) == 0;
  TRITONSERVER_Error *error = step(model);
  if (known)
    sigaltstack(&own, NULL);
  framework_keep_open(model->library);
  return error;
}

static TRITONSERVER_Error *load(framework_model *model)
{
  return take_step(ov_model_load, model);
}

static TRITONSERVER_Error *prepare(framework_model *model)
{
  return take_step(ov_model_prepare, model);
}

const framework_functions framework_definition = {
    .framework = {.name = "OpenVINO",
                  .backend = "openvino",
                  .package = "openvino",
                  .dir = "openvino/libs",
                  .library = "libopenvino_c.so",
                  .loader_names = {"libopenvino_c.so"}},
    .library_parameter = "openvino_library",
    .has_room = true,
    .open = ov_runtime_open,
    .close = ov_runtime_close,
    .load = load,
    .complete = ov_model_complete,
    .fit = ov_model_fit,
    .prepare = prepare,
    .unload = ov_model_unload,
    .instance_new = ov_instance_new,
    .instance_free = ov_instance_free,
    .begin = ov_run_begin,
    .add_input = ov_run_add_input,
    .compute = ov_run_compute,
    .read_output = ov_run_read_output,
};
