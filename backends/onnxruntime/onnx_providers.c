// SPDX-License-Identifier: Apache-2.0
// The providers of a session on a GPU. Load threads.
#include "onnx_model.h"

#include "backend_error.h"
#include "backend_log.h"
#include "onnx_provider_options.h"

#include <string.h>

// The list as the C API takes it, which only reads it.
static const char *const *texts(const string_list *list)
{
  return (const char *const *)list->items;
}

// ---- CUDA ----

static void log_options(const framework_model *model, int device, const ort_cuda_options *provider)
{
  const ort_runtime *runtime = onnx_runtime_of(model);
  char *text = NULL;
  if (!TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE))
    return;
  backend_error_log(ort_error(runtime, runtime->gpu.GetCUDAProviderOptionsAsString(
                                           provider, runtime->allocator, &text)),
                    "read the options of a provider");
  if (text == NULL)
    return;
  BACKEND_LOG_VERBOSE("CUDA Execution Accelerator is set for '%s' on device %d with options: %s",
                      model->name, device, text);
  backend_error_log(ort_error(runtime, runtime->api.AllocatorFree(runtime->allocator, text)),
                    "free a text");
}

static TRITONSERVER_Error *fill_cuda(const framework_model *model, const onnx_target *target,
                                     const onnx_provider_options *given, ort_cuda_options *provider)
{
  const ort_runtime *runtime = onnx_runtime_of(model);
  ORT_RETURN_IF_ERROR(runtime, runtime->gpu.UpdateCUDAProviderOptions(provider, texts(&given->keys),
                                                                      texts(&given->values),
                                                                      given->keys.count));
  return ort_error(runtime, runtime->gpu.UpdateCUDAProviderOptionsWithValue(
                                provider, "user_compute_stream", target->stream->handle));
}

static TRITONSERVER_Error *add_cuda(const framework_model *model, const onnx_target *target,
                                    ort_session_options *options)
{
  const ort_runtime *runtime = onnx_runtime_of(model);
  onnx_provider_options given = {0};
  ort_cuda_options *provider = NULL;
  TRITONSERVER_Error *error = ort_runtime_open_provider(runtime, "CUDAExecutionProvider");
  if (error == NULL)
    error = onnx_cuda_options(model->config, target->device, &given);
  if (error == NULL)
    error = ort_error(runtime, runtime->gpu.CreateCUDAProviderOptions(&provider));
  if (error == NULL)
    error = fill_cuda(model, target, &given, provider);
  if (error == NULL)
    error = ort_error(
        runtime, runtime->gpu.SessionOptionsAppendExecutionProvider_CUDA_V2(options, provider));
  if (error == NULL)
    log_options(model, target->device, provider);
  if (provider != NULL)
    runtime->gpu.ReleaseCUDAProviderOptions(provider);
  onnx_provider_options_fini(&given);
  return error;
}

// ---- TensorRT ----

static TRITONSERVER_Error *fill_tensorrt(const framework_model *model, const onnx_target *target,
                                         const onnx_provider_options *given,
                                         ort_tensorrt_options *provider)
{
  const ort_runtime *runtime = onnx_runtime_of(model);
  ORT_RETURN_IF_ERROR(runtime,
                      runtime->gpu.UpdateTensorRTProviderOptions(
                          provider, texts(&given->keys), texts(&given->values), given->keys.count));
  return ort_error(runtime, runtime->gpu.UpdateTensorRTProviderOptionsWithValue(
                                provider, "user_compute_stream", target->stream->handle));
}

static TRITONSERVER_Error *add_tensorrt(const framework_model *model, const onnx_target *target,
                                        const json_t *accelerator, ort_session_options *options)
{
  const ort_runtime *runtime = onnx_runtime_of(model);
  onnx_provider_options given = {0};
  ort_tensorrt_options *provider = NULL;
  TRITONSERVER_Error *error = onnx_tensorrt_options(accelerator, target->device, &given);
  if (error == NULL)
    error = ort_runtime_open_provider(runtime, "TensorrtExecutionProvider");
  if (error == NULL)
    error = ort_error(runtime, runtime->gpu.CreateTensorRTProviderOptions(&provider));
  if (error == NULL)
    error = fill_tensorrt(model, target, &given, provider);
  if (error == NULL)
    error = ort_error(
        runtime, runtime->gpu.SessionOptionsAppendExecutionProvider_TensorRT_V2(options, provider));
  if (error == NULL)
    BACKEND_LOG_VERBOSE("TensorRT Execution Accelerator is set for '%s' on device %d", model->name,
                        target->device);
  if (provider != NULL)
    runtime->gpu.ReleaseTensorRTProviderOptions(provider);
  onnx_provider_options_fini(&given);
  return error;
}

// ---- all ----

TRITONSERVER_Error *onnx_check_gpu(const framework_model *model)
{
  TRITONSERVER_Error *cause = ort_runtime_check_gpu(onnx_runtime_of(model));
  if (cause == NULL)
    return NULL;
  TRITONSERVER_Error *error =
      backend_error(TRITONSERVER_ErrorCode(cause), "model '%s' has instances of KIND_GPU: %s",
                    model->name, TRITONSERVER_ErrorMessage(cause));
  TRITONSERVER_ErrorDelete(cause);
  return error;
}

// For each part of the model the providers are asked in this order. CUDA, which every session on a
// GPU has, is last.
TRITONSERVER_Error *onnx_add_gpu_providers(const framework_model *model, const onnx_target *target,
                                           ort_session_options *options)
{
  const json_t *list = onnx_gpu_accelerators(model->config);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *accelerator = json_array_get(list, i);
    const char *name = backend_json_text(accelerator, "name");
    if (strcmp(name, "tensorrt") == 0)
      BACKEND_RETURN_IF_ERROR(add_tensorrt(model, target, accelerator, options));
    else if (strcmp(name, "cuda") != 0)
      return backend_error_invalid("unknown Execution Accelerator '%s' is requested", name);
  }
  return add_cuda(model, target, options);
}
