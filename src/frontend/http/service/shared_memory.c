// The shared memory extensions: status, register, unregister, for system and CUDA memory. Giving a
// large region back takes the kernel long, so what changes regions runs in a job.
#include "frontend/common/tensor/shared_memory.h"

#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/server.h"
#include "frontend/http/service/routes.h"

// The region that the path names; NULL when it names none.
static const char *region_of(const exchange *x)
{
  const char *name = x->parameters[PARAMETER_REGION];
  return name[0] == '\0' ? NULL : name;
}

// ---- status ----

static void reply_status(exchange *x, TRITONSERVER_MemoryType kind)
{
  if (!exchange_fail_if_error(x, shared_memory_print(x->http->options.shared_memory, kind,
                                                     region_of(x), false, &x->text)))
    exchange_reply_json(x);
}

void handle_system_memory_status(exchange *x)
{
  reply_status(x, TRITONSERVER_MEMORY_CPU);
}

void handle_cuda_memory_status(exchange *x)
{
  reply_status(x, TRITONSERVER_MEMORY_GPU);
}

// ---- register ----

static bool require_region(exchange *x, const char *kind)
{
  if (region_of(x) == NULL)
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "'region name' is necessary to register %s shared memory region", kind);
  return x->failure == NULL;
}

// False when the member is there and cannot be: the exchange has failed.
static bool read_size(exchange *x, const json_t *object, const char *name, uint64_t *value)
{
  const json_t *member = json_object_get(object, name);
  *value = 0;
  if (member == NULL)
    return true;
  if (!json_is_integer(member) || json_integer_value(member) < 0)
    return exchange_fail(
        x, MHD_HTTP_BAD_REQUEST,
        "attempt to access JSON non-unsigned-integer as unsigned-integer: '%s' must be a "
        "number of bytes",
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

void handle_system_memory_register(exchange *x)
{
  if (!exchange_fail_if_error(x, shared_memory_allowed(x->http->options.shared_memory)) &&
      require_region(x, "system"))
    exchange_run_job(x, JOB_PROBES, register_system, exchange_reply_ok);
}

// Without a GPU nothing of the body counts, as in Triton.
void handle_cuda_memory_register(exchange *x)
{
  if (!exchange_fail_if_error(x, shared_memory_allowed(x->http->options.shared_memory)) &&
      require_region(x, "cuda"))
    exchange_fail_if_error(
        x, shared_memory_register_cuda(x->http->options.shared_memory, region_of(x)));
}

// ---- unregister ----

static void unregister_system(exchange *x)
{
  exchange_fail_if_error(x, shared_memory_unregister(x->http->options.shared_memory,
                                                     TRITONSERVER_MEMORY_CPU, region_of(x)));
}

void handle_system_memory_unregister(exchange *x)
{
  exchange_run_job(x, JOB_PROBES, unregister_system, exchange_reply_ok);
}

void handle_cuda_memory_unregister(exchange *x)
{
  exchange_fail_if_error(x, shared_memory_unregister(x->http->options.shared_memory,
                                                     TRITONSERVER_MEMORY_GPU, region_of(x)));
  exchange_reply_ok(x);
}
