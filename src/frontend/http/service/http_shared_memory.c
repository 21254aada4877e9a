// SPDX-License-Identifier: Apache-2.0
// The shared memory extensions: status, register, unregister, for system and CUDA memory. Regions
// change in jobs, because unmapping a large one and calls to a GPU's driver may take long.
#include "frontend/common/tensor/shared_memory.h"

#include "base/base64.h"
#include "base/text.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/service/routes.h"
#include "gpu/cuda.h"

// The region in the path, or NULL.
static const char *region_of(const exchange *x)
{
  const char *name = x->parameters[PARAMETER_REGION];
  return name[0] == '\0' ? NULL : name;
}

static TRITONSERVER_MemoryType kind_of(const exchange *x)
{
  return text_starts_with(x->route->path, "/v2/cuda") ? TRITONSERVER_MEMORY_GPU
                                                      : TRITONSERVER_MEMORY_CPU;
}

// ---- status ----

void handle_memory_status(exchange *x)
{
  exchange_fail_if_error(x, shared_memory_print(x->http->options.shared_memory, kind_of(x),
                                                region_of(x), false, &x->text));
  exchange_reply_json(x);
}

// ---- register ----

// Reads an optional size. False: it is invalid and the exchange has failed.
static bool read_size(exchange *x, const json_t *object, const char *name, uint64_t *value)
{
  const json_t *member = json_object_get(object, name);
  *value = 0;
  if (member == NULL)
    return true;
  if (!json_is_integer(member) || json_integer_value(member) < 0)
    return exchange_fail(
        x, MHD_HTTP_BAD_REQUEST,
        "attempt to access JSON non-unsigned-integer as unsigned-integer: '%s' must be an "
        "integer of at least 0",
        name);
  *value = (uint64_t)json_integer_value(member);
  return true;
}

static void register_system(exchange *x)
{
  json_t *object;
  uint64_t offset, byte_size;
  if (!exchange_parse_json(x, &object))
    return;
  const json_t *key = json_object_get(object, "key");
  if (key == NULL) {
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "Shared memory register request has no 'key' field");
  } else if (!json_is_string(key)) {
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "attempt to access JSON non-string as string: 'key' must be a string");
  } else if (json_object_get(object, "byte_size") == NULL) {
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "Shared memory register request has no 'byte_size' field");
  } else if (read_size(x, object, "offset", &offset) &&
             read_size(x, object, "byte_size", &byte_size)) {
    exchange_fail_if_error(x, shared_memory_register_system(x->http->options.shared_memory,
                                                            region_of(x), json_string_value(key),
                                                            offset, byte_size));
  }
}

// Fails in Triton's words.
static bool fail_access(exchange *x, const char *kind, const char *name)
{
  return exchange_fail(x, MHD_HTTP_BAD_REQUEST, "attempt to access %s '%s'", kind, name);
}

// Decodes the handle into the arena. False: the exchange has failed.
static bool read_handle(exchange *x, const json_t *object, slice *handle)
{
  const json_t *raw = json_object_get(object, "raw_handle");
  const json_t *text = json_object_get(raw, "b64");
  if (raw == NULL)
    return exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                         "Shared memory register request has no 'raw_handle' field");
  if (text == NULL)
    return fail_access(x, "non-existing object member", "b64");
  if (!json_is_string(text))
    return fail_access(x, "JSON non-string as string:", "b64");
  const slice encoded = {json_string_value(text), json_string_length(text)};
  char *decoded = arena_allocate(&x->arena, base64_decoded_size(encoded.size) + 1);
  *handle = (slice){decoded, 0};
  if (decoded == NULL)
    return exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
  if (!base64_decode(encoded, decoded, &handle->size) || handle->size != sizeof(CUipcMemHandle))
    return exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                         "'raw_handle' must be a valid base64 encoded cudaIpcMemHandle_t");
  return true;
}

static bool read_given_size(exchange *x, const json_t *object, const char *name, uint64_t *value)
{
  if (json_object_get(object, name) == NULL)
    return fail_access(x, "non-existing object member", name);
  return read_size(x, object, name, value);
}

// Without a GPU the body is not even read, as in Triton.
static void register_cuda(exchange *x)
{
  json_t *object;
  slice handle;
  uint64_t byte_size, device;
  if (!exchange_fail_if_error(x, shared_memory_find_gpus(region_of(x))) &&
      exchange_parse_json(x, &object) && read_handle(x, object, &handle) &&
      read_given_size(x, object, "byte_size", &byte_size) &&
      read_given_size(x, object, "device_id", &device))
    exchange_fail_if_error(x,
                           shared_memory_register_cuda(x->http->options.shared_memory, region_of(x),
                                                       handle, (int64_t)device, byte_size));
}

void handle_memory_register(exchange *x)
{
  shared_memory *memory = x->http->options.shared_memory;
  const bool is_cuda = kind_of(x) == TRITONSERVER_MEMORY_GPU;
  if (exchange_fail_if_error(x, shared_memory_allowed(memory)))
    return;
  if (region_of(x) == NULL)
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "'region name' is necessary to register %s shared memory region",
                  is_cuda ? "cuda" : "system");
  else if (is_cuda)
    exchange_run_job(x, JOB_DRIVER, register_cuda, exchange_reply_ok);
  else
    exchange_run_job(x, JOB_PROBES, register_system, exchange_reply_ok);
}

// ---- unregister ----

static void unregister(exchange *x)
{
  exchange_fail_if_error(
      x, shared_memory_unregister(x->http->options.shared_memory, kind_of(x), region_of(x)));
}

void handle_memory_unregister(exchange *x)
{
  const bool is_cuda = kind_of(x) == TRITONSERVER_MEMORY_GPU;
  exchange_run_job(x, is_cuda ? JOB_DRIVER : JOB_PROBES, unregister, exchange_reply_ok);
}
