// The shared memory extensions: status, register, unregister, for system and CUDA memory. Giving a
// large region back takes the kernel long, so what changes regions runs in a job.
#include "frontend/common/tensor/shared_memory.h"

#include "base/arena.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/call/handlers.h"
#include "frontend/grpc/call/server.h"
#include "frontend/grpc/codec/control_message.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"

static shared_memory *memory_of(const call *c)
{
  return c->server->options.shared_memory;
}

// The region that a request names; NULL when it names none.
static const char *region_of(const char *name)
{
  return name[0] == '\0' ? NULL : name;
}

static bool is_admitted(call *c)
{
  return !call_fail_if_error(c, shared_memory_allowed(memory_of(c)));
}

// ---- status ----

typedef Inference__SystemSharedMemoryStatusResponse__RegionsEntry system_entry;
typedef Inference__SystemSharedMemoryStatusResponse__RegionStatus system_status;
typedef Inference__CudaSharedMemoryStatusResponse__RegionsEntry cuda_entry;
typedef Inference__CudaSharedMemoryStatusResponse__RegionStatus cuda_status;

// Entries of a reply's map, in the call's arena.
typedef struct status_list {
  arena *arena;
  void **entries;
  size_t count;
  bool failed; // memory was short
} status_list;

// Room for an entry and the message in it: `entry` and `status` are in one piece. NULL when memory
// is short.
static void *add_entry(status_list *list, size_t size)
{
  if (!list->failed)
    list->entries = arena_grow_array(list->arena, list->entries, list->count, sizeof(void *));
  void *entry = list->failed || list->entries == NULL ? NULL : arena_allocate(list->arena, size);
  list->failed = entry == NULL;
  if (entry != NULL)
    list->entries[list->count++] = entry;
  return entry;
}

// The texts of a status are the registry's, which is locked only now.
static char *keep(status_list *list, const char *text)
{
  char *copy = arena_copy_text(list->arena, slice_of(text));
  list->failed = list->failed || copy == NULL;
  return copy != NULL ? copy : (char *)protobuf_c_empty_string;
}

static void add_system(void *list_pointer, const shared_region_status *region)
{
  struct {
    system_entry entry;
    system_status status;
  } *made = add_entry(list_pointer, sizeof(*made));
  if (made == NULL)
    return;
  inference__system_shared_memory_status_response__regions_entry__init(&made->entry);
  inference__system_shared_memory_status_response__region_status__init(&made->status);
  made->status.name = made->entry.key = keep(list_pointer, region->name);
  made->status.key = keep(list_pointer, region->key);
  made->status.offset = region->offset;
  made->status.byte_size = region->byte_size;
  made->entry.value = &made->status;
}

static void add_cuda(void *list_pointer, const shared_region_status *region)
{
  struct {
    cuda_entry entry;
    cuda_status status;
  } *made = add_entry(list_pointer, sizeof(*made));
  if (made == NULL)
    return;
  inference__cuda_shared_memory_status_response__regions_entry__init(&made->entry);
  inference__cuda_shared_memory_status_response__region_status__init(&made->status);
  made->status.name = made->entry.key = keep(list_pointer, region->name);
  made->status.device_id = (uint64_t)region->device_id;
  made->status.byte_size = region->byte_size;
  made->entry.value = &made->status;
}

// False when the call has failed.
static bool list_regions(call *c, TRITONSERVER_MemoryType kind, const char *name,
                         shared_region_visit *add, status_list *list)
{
  if (call_fail_if_error(c, shared_memory_status(memory_of(c), kind, region_of(name), add, list)))
    return false;
  return !list->failed || !call_fail_if_error(c, error_no_memory());
}

void grpc_handle_system_memory_status(call *c)
{
  status_list list = {.arena = &c->arena};
  const Inference__SystemSharedMemoryStatusRequest *request =
      control_request(c, &inference__system_shared_memory_status_request__descriptor);
  if (request == NULL ||
      !list_regions(c, TRITONSERVER_MEMORY_CPU, request->name, add_system, &list))
    return;
  Inference__SystemSharedMemoryStatusResponse reply =
      INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_RESPONSE__INIT;
  reply.regions = (system_entry **)list.entries;
  reply.n_regions = list.count;
  call_reply_message(c, &reply.base);
}

void grpc_handle_cuda_memory_status(call *c)
{
  status_list list = {.arena = &c->arena};
  const Inference__CudaSharedMemoryStatusRequest *request =
      control_request(c, &inference__cuda_shared_memory_status_request__descriptor);
  if (request == NULL || !list_regions(c, TRITONSERVER_MEMORY_GPU, request->name, add_cuda, &list))
    return;
  Inference__CudaSharedMemoryStatusResponse reply =
      INFERENCE__CUDA_SHARED_MEMORY_STATUS_RESPONSE__INIT;
  reply.regions = (cuda_entry **)list.entries;
  reply.n_regions = list.count;
  call_reply_message(c, &reply.base);
}

// ---- register ----

static void register_system(call *c)
{
  const Inference__SystemSharedMemoryRegisterRequest *request =
      control_request(c, &inference__system_shared_memory_register_request__descriptor);
  if (request == NULL ||
      call_fail_if_error(c, shared_memory_register_system(memory_of(c), request->name, request->key,
                                                          request->offset, request->byte_size)))
    return;
  Inference__SystemSharedMemoryRegisterResponse reply =
      INFERENCE__SYSTEM_SHARED_MEMORY_REGISTER_RESPONSE__INIT;
  call_reply_message(c, &reply.base);
}

void grpc_handle_system_memory_register(call *c)
{
  if (is_admitted(c))
    call_run_job(c, c->server->probes, register_system, NULL);
}

// Without a GPU nothing else of the request counts, as in Triton.
void grpc_handle_cuda_memory_register(call *c)
{
  const Inference__CudaSharedMemoryRegisterRequest *request =
      is_admitted(c)
          ? control_request(c, &inference__cuda_shared_memory_register_request__descriptor)
          : NULL;
  if (request == NULL ||
      call_fail_if_error(c, shared_memory_register_cuda(memory_of(c), request->name)))
    return;
  Inference__CudaSharedMemoryRegisterResponse reply =
      INFERENCE__CUDA_SHARED_MEMORY_REGISTER_RESPONSE__INIT;
  call_reply_message(c, &reply.base);
}

// ---- unregister ----

static void unregister_system(call *c)
{
  const Inference__SystemSharedMemoryUnregisterRequest *request =
      control_request(c, &inference__system_shared_memory_unregister_request__descriptor);
  if (request == NULL ||
      call_fail_if_error(c, shared_memory_unregister(memory_of(c), TRITONSERVER_MEMORY_CPU,
                                                     region_of(request->name))))
    return;
  Inference__SystemSharedMemoryUnregisterResponse reply =
      INFERENCE__SYSTEM_SHARED_MEMORY_UNREGISTER_RESPONSE__INIT;
  call_reply_message(c, &reply.base);
}

void grpc_handle_system_memory_unregister(call *c)
{
  call_run_job(c, c->server->probes, unregister_system, NULL);
}

void grpc_handle_cuda_memory_unregister(call *c)
{
  const Inference__CudaSharedMemoryUnregisterRequest *request =
      control_request(c, &inference__cuda_shared_memory_unregister_request__descriptor);
  if (request == NULL ||
      call_fail_if_error(c, shared_memory_unregister(memory_of(c), TRITONSERVER_MEMORY_GPU,
                                                     region_of(request->name))))
    return;
  Inference__CudaSharedMemoryUnregisterResponse reply =
      INFERENCE__CUDA_SHARED_MEMORY_UNREGISTER_RESPONSE__INIT;
  call_reply_message(c, &reply.base);
}
