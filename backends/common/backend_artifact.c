// SPDX-License-Identifier: Apache-2.0
// Chooses a model's file by the device.
#include "backend_artifact.h"

#include "backend_error.h"
#include "backend_log.h"
#include "gpu/device.h"

#include <stdio.h>

// The error has Triton's words, plus the instance's name.
static TRITONSERVER_Error *find_device(int ordinal, const gpu_device **device)
{
  const gpu_devices *devices;
  const char *why = NULL;
  AUTO_ERROR error *e = gpu_devices_find(&devices, &why);
  if (e == NULL && ordinal >= 0 && (size_t)ordinal < devices->count) {
    *device = &devices->items[ordinal];
    return NULL;
  }
  if (e != NULL)
    why = error_message(e);
  return backend_error_internal("unable to get CUDA device properties for GPU %d: %s", ordinal,
                                why != NULL ? why : "invalid device ordinal");
}

TRITONSERVER_Error *backend_artifact(const json_t *config, int device, const char **file)
{
  const json_t *files = json_object_get(config, "cc_model_filenames");
  const gpu_device *found;
  char capability[24];
  *file = backend_json_text(config, "default_model_filename");
  if (device < 0 || json_object_size(files) == 0)
    return NULL;
  BACKEND_RETURN_IF_ERROR(find_device(device, &found));
  snprintf(capability, sizeof(capability), "%d.%d", found->major, found->minor);
  const char *own = json_string_value(json_object_get(files, capability));
  if (own != NULL)
    *file = own;
  return NULL;
}

TRITONSERVER_Error *backend_artifact_log(TRITONBACKEND_ModelInstance *instance,
                                         const json_t *config)
{
  TRITONSERVER_InstanceGroupKind kind;
  const char *name, *file;
  const gpu_device *found;
  int32_t device;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceKind(instance, &kind));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceName(instance, &name));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelInstanceDeviceId(instance, &device));
  if (kind != TRITONSERVER_INSTANCEGROUPKIND_GPU) {
    BACKEND_RETURN_IF_ERROR(backend_artifact(config, -1, &file));
    BACKEND_LOG_VERBOSE(
        "Creating instance %s on %s using artifact '%s'", name,
        kind == TRITONSERVER_INSTANCEGROUPKIND_CPU ? "CPU" : "model-specified devices", file);
    return NULL;
  }
  BACKEND_RETURN_IF_ERROR(backend_artifact(config, device, &file));
  BACKEND_RETURN_IF_ERROR(find_device(device, &found));
  BACKEND_LOG_VERBOSE("Creating instance %s on GPU %d (%d.%d) using artifact '%s'", name,
                      (int)device, found->major, found->minor, file);
  return NULL;
}
