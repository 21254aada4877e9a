// The shared memory extensions: status, register, unregister, for system and CUDA memory. Giving a
// large region back takes the kernel long, so what changes regions runs in a job.
#include "frontend/common/tensor/shared_memory.h"

#include "frontend/grpc/call/call.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/service/control_message.h"
#include "frontend/grpc/service/handlers.h"

static shared_memory *memory_of(const call *c)
{
  return c->server->options.shared_memory;
}

// The name in a request that has nothing else: NULL for all regions. False when the call has
// failed.
static bool read_region(call *c, const char **region)
{
  const Inference__SystemSharedMemoryStatusRequest *request =
      control_request(c, &inference__system_shared_memory_status_request__descriptor);
  *region = request == NULL || request->name[0] == '\0' ? NULL : request->name;
  return request != NULL;
}

static bool is_admitted(call *c)
{
  return !call_fail_if_error(c, shared_memory_allowed(memory_of(c)));
}

// ---- status ----

static void reply_status(call *c, TRITONSERVER_MemoryType kind,
                         const ProtobufCMessageDescriptor *type)
{
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  const char *region;
  if (read_region(c, &region) &&
      !call_fail_if_error(c, shared_memory_print(memory_of(c), kind, region, true, &json)))
    control_reply_text(c, &json, type, "regions");
}

void grpc_handle_system_memory_status(call *c)
{
  reply_status(c, TRITONSERVER_MEMORY_CPU,
               &inference__system_shared_memory_status_response__descriptor);
}

void grpc_handle_cuda_memory_status(call *c)
{
  reply_status(c, TRITONSERVER_MEMORY_GPU,
               &inference__cuda_shared_memory_status_response__descriptor);
}

// ---- register ----

static void register_system(call *c)
{
  const Inference__SystemSharedMemoryRegisterRequest *request =
      control_request(c, &inference__system_shared_memory_register_request__descriptor);
  if (request != NULL)
    control_reply_empty(c, shared_memory_register_system(memory_of(c), request->name, request->key,
                                                         request->offset, request->byte_size));
}

void grpc_handle_system_memory_register(call *c)
{
  if (is_admitted(c))
    call_run_job(c, JOB_PROBES, register_system, NULL);
}

// Without a GPU nothing else of the request counts, as in Triton.
void grpc_handle_cuda_memory_register(call *c)
{
  const Inference__CudaSharedMemoryRegisterRequest *request =
      is_admitted(c)
          ? control_request(c, &inference__cuda_shared_memory_register_request__descriptor)
          : NULL;
  if (request != NULL)
    control_reply_empty(c, shared_memory_register_cuda(memory_of(c), request->name));
}

// ---- unregister ----

static void unregister(call *c, TRITONSERVER_MemoryType kind)
{
  const char *region;
  if (read_region(c, &region))
    control_reply_empty(c, shared_memory_unregister(memory_of(c), kind, region));
}

static void unregister_system(call *c)
{
  unregister(c, TRITONSERVER_MEMORY_CPU);
}

void grpc_handle_system_memory_unregister(call *c)
{
  call_run_job(c, JOB_PROBES, unregister_system, NULL);
}

void grpc_handle_cuda_memory_unregister(call *c)
{
  unregister(c, TRITONSERVER_MEMORY_GPU);
}
