// SPDX-License-Identifier: Apache-2.0
// What the rest of the tests rely on in a driver: its rules, asked of the played one (ctest) or of
// the machine's (run by hand). Faults, counters and what other processes do:
// tests/e2e/gpu/test_gpu_fake.py.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/driver.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static const gpu_driver *cu;
static CUdevice device;

#define assert_code(call, code) assert_int_equal(call, code)
#define assert_done(call)       assert_int_equal(call, CUDA_SUCCESS)

static CUcontext enter(void)
{
  CUcontext context;
  assert_done(cu->cuDevicePrimaryCtxRetain(&context, device));
  assert_done(cu->cuCtxSetCurrent(context));
  return context;
}

static void leave(void)
{
  assert_done(cu->cuCtxSetCurrent(NULL));
  assert_done(cu->cuDevicePrimaryCtxRelease_v2(device));
}

static CUstream stream_new(unsigned flags)
{
  CUstream stream;
  assert_done(cu->cuStreamCreateWithPriority(&stream, flags, 0));
  return stream;
}

static CUdeviceptr allocate(size_t bytes)
{
  CUdeviceptr memory;
  assert_done(cu->cuMemAlloc_v2(&memory, bytes));
  return memory;
}

static void *allocate_pinned(size_t bytes)
{
  void *memory;
  assert_done(cu->cuMemHostAlloc(&memory, bytes, CU_MEMHOSTALLOC_PORTABLE));
  return memory;
}

// A host function that holds its stream until a byte comes.
static void hold(void *context)
{
  char byte;
  assert_int_equal(read(((int *)context)[0], &byte, 1), 1);
}

static void let_on(const int pipe[2])
{
  assert_int_equal(write(pipe[1], "x", 1), 1);
}

// ---- contexts ----

static void contexts_are_counted_and_made_by_the_first(void **state)
{
  (void)state;
  unsigned flags;
  int active;
  CUcontext context, again;
  assert_done(cu->cuDevicePrimaryCtxGetState(device, &flags, &active));
  assert_false(active);
  assert_done(cu->cuDevicePrimaryCtxRetain(&context, device));
  assert_done(cu->cuDevicePrimaryCtxRetain(&again, device));
  assert_ptr_equal(context, again);
  assert_done(cu->cuDevicePrimaryCtxRelease_v2(device));
  assert_done(cu->cuDevicePrimaryCtxGetState(device, &flags, &active));
  assert_true(active);
  assert_done(cu->cuDevicePrimaryCtxRelease_v2(device));
  assert_done(cu->cuDevicePrimaryCtxGetState(device, &flags, &active));
  assert_false(active);
  assert_code(cu->cuDevicePrimaryCtxRelease_v2(device), CUDA_ERROR_INVALID_CONTEXT);
}

static void *allocate_elsewhere(void *context)
{
  CUdeviceptr memory;
  CUcontext current = context;
  assert_done(cu->cuCtxGetCurrent(&current));
  assert_null(current);
  return (void *)(intptr_t)cu->cuMemAlloc_v2(&memory, 16);
}

static void a_context_is_current_for_one_thread(void **state)
{
  (void)state;
  CUdeviceptr memory;
  pthread_t thread;
  void *code;
  assert_code(cu->cuMemAlloc_v2(&memory, 16), CUDA_ERROR_INVALID_CONTEXT);
  CUcontext context = enter(), current;
  assert_done(cu->cuCtxGetCurrent(&current));
  assert_ptr_equal(current, context);
  pthread_create(&thread, NULL, allocate_elsewhere, context);
  pthread_join(thread, &code);
  assert_int_equal((intptr_t)code, CUDA_ERROR_INVALID_CONTEXT);
  leave();
}

static void memory_goes_with_its_context(void **state)
{
  (void)state;
  size_t before, after, total;
  enter();
  assert_done(cu->cuMemGetInfo_v2(&before, &total));
  allocate(64 * MIB);
  assert_done(cu->cuMemGetInfo_v2(&after, &total));
  assert_true(after <= before - 64 * MIB);
  leave();
  enter();
  assert_done(cu->cuMemGetInfo_v2(&after, &total));
  assert_true(after > before - 64 * MIB);
  leave();
}

// ---- memory ----

static void the_host_cannot_touch_device_memory(void **state)
{
  (void)state;
  int status;
  enter();
  CUdeviceptr memory = allocate(4096);
  pid_t child = fork();
  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    *(volatile char *)memory = 1;
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_done(cu->cuMemFree_v2(memory));
  leave();
}

static void sizes_that_cannot_be_are_refused(void **state)
{
  (void)state;
  CUdeviceptr memory;
  void *host;
  enter();
  assert_code(cu->cuMemAlloc_v2(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  assert_code(cu->cuMemHostAlloc(&host, 0, 0), CUDA_ERROR_INVALID_VALUE);
  assert_code(cu->cuMemAlloc_v2(&memory, (size_t)1 << 45), CUDA_ERROR_OUT_OF_MEMORY);
  memory = allocate(16); // it is no lasting error
  assert_done(cu->cuMemFree_v2(memory));
  assert_code(cu->cuMemFree_v2(memory), CUDA_ERROR_INVALID_VALUE);
  leave();
}

static void ask(CUdeviceptr memory, unsigned *type, int *ordinal, CUdeviceptr *base, size_t *bytes)
{
  int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                      CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
  void *values[] = {type, ordinal, base, bytes};
  assert_done(cu->cuPointerGetAttributes(4, attributes, values, memory));
}

static void the_driver_knows_what_a_pointer_is(void **state)
{
  (void)state;
  unsigned type;
  int ordinal;
  CUdeviceptr base;
  size_t bytes;
  char *plain = malloc(64);
  enter();
  CUdeviceptr memory = allocate(4 * MIB);
  char *pinned = allocate_pinned(8192);
  ask(memory + 100, &type, &ordinal, &base, &bytes);
  assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
  assert_int_equal(ordinal, 0);
  assert_int_equal(base, memory);
  assert_int_equal(bytes, 4 * MIB);
  ask((CUdeviceptr)pinned + 8191, &type, &ordinal, &base, &bytes);
  assert_int_equal(type, CU_MEMORYTYPE_HOST);
  ask((CUdeviceptr)plain, &type, &ordinal, &base, &bytes);
  assert_int_equal(type, 0);
  assert_done(cu->cuMemGetAddressRange_v2(&base, &bytes, memory + 5));
  assert_int_equal(base, memory);
  assert_int_equal(bytes, 4 * MIB);
  assert_done(cu->cuMemFreeHost(pinned));
  assert_done(cu->cuMemFree_v2(memory));
  leave();
  free(plain);
}

static void host_memory_is_registered_once(void **state)
{
  (void)state;
  char *memory = aligned_alloc(4096, 8192);
  enter();
  assert_done(cu->cuMemHostRegister_v2(memory, 8192, 0));
  assert_int_not_equal(cu->cuMemHostRegister_v2(memory, 4096, 0), CUDA_SUCCESS);
  assert_done(cu->cuMemHostUnregister(memory));
  assert_int_not_equal(cu->cuMemHostUnregister(memory), CUDA_SUCCESS);
  leave();
  free(memory);
}

// ---- copies ----

static void copies_are_made_later_and_in_order(void **state)
{
  (void)state;
  int gate[2];
  enter();
  assert_int_equal(pipe(gate), 0);
  CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
  CUdeviceptr first = allocate(MIB), second = allocate(MIB);
  char *from = allocate_pinned(MIB), *to = allocate_pinned(MIB);
  memset(from, 7, MIB);
  memset(to, 0, MIB);
  assert_done(cu->cuLaunchHostFunc(stream, hold, gate));
  assert_done(cu->cuMemcpyHtoDAsync_v2(first, from, MIB, stream));
  assert_done(cu->cuMemcpyDtoDAsync_v2(second, first, MIB, stream));
  assert_done(cu->cuMemsetD8Async(second + 3, 9, 2, stream));
  assert_done(cu->cuMemcpyDtoHAsync_v2(to, second, MIB, stream));
  assert_code(cu->cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  assert_int_equal(to[0], 0);
  let_on(gate);
  assert_done(cu->cuStreamSynchronize(stream));
  assert_done(cu->cuStreamQuery(stream));
  assert_memory_equal(to, "\7\7\7\11\11\7", 6);
  assert_int_equal(to[MIB - 1], 7);
  cu->cuMemFree_v2(first);
  cu->cuMemFree_v2(second);
  cu->cuMemFreeHost(from);
  cu->cuMemFreeHost(to);
  assert_done(cu->cuStreamDestroy_v2(stream));
  leave();
  close(gate[0]);
  close(gate[1]);
}

static void pageable_memory_is_free_when_the_call_returns(void **state)
{
  (void)state;
  enum {
    BYTES = 30000
  }; // more is not promised to be staged at once
  char *from = malloc(BYTES), *to = malloc(BYTES);
  enter();
  CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
  CUdeviceptr memory = allocate(BYTES);
  memset(from, 1, BYTES);
  assert_done(cu->cuMemcpyHtoDAsync_v2(memory, from, BYTES, stream));
  memset(from, 2, BYTES);
  assert_done(cu->cuMemcpyDtoHAsync_v2(to, memory, BYTES, stream)); // is done when it returns
  assert_int_equal(to[0], 1);
  assert_int_equal(to[BYTES - 1], 1);
  assert_done(
      cu->cuMemcpyAsync(memory, (CUdeviceptr)from, BYTES, stream)); // finds out which is which
  assert_done(cu->cuMemcpyAsync((CUdeviceptr)to, memory, BYTES, stream));
  assert_int_equal(to[0], 2);
  cu->cuMemFree_v2(memory);
  assert_done(cu->cuStreamDestroy_v2(stream));
  leave();
  free(from);
  free(to);
}

// ---- streams and events ----

static void an_event_is_done_when_what_is_before_it_is(void **state)
{
  (void)state;
  int gate[2];
  CUevent event;
  enter();
  assert_int_equal(pipe(gate), 0);
  CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
  assert_done(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
  assert_done(cu->cuEventQuery(event)); // never recorded
  assert_done(cu->cuLaunchHostFunc(stream, hold, gate));
  assert_done(cu->cuEventRecord(event, stream));
  assert_code(cu->cuEventQuery(event), CUDA_ERROR_NOT_READY);
  let_on(gate);
  assert_done(cu->cuEventSynchronize(event));
  assert_done(cu->cuEventQuery(event));
  assert_done(cu->cuEventDestroy_v2(event));
  assert_done(cu->cuStreamDestroy_v2(stream));
  leave();
  close(gate[0]);
  close(gate[1]);
}

static void a_stream_waits_for_the_event_of_another(void **state)
{
  (void)state;
  int gate[2];
  CUevent event;
  enter();
  assert_int_equal(pipe(gate), 0);
  CUstream one = stream_new(CU_STREAM_NON_BLOCKING), other = stream_new(CU_STREAM_NON_BLOCKING);
  CUdeviceptr memory = allocate(4096);
  char *from = allocate_pinned(4096), *to = allocate_pinned(4096);
  memset(from, 5, 4096);
  assert_done(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  assert_done(cu->cuLaunchHostFunc(one, hold, gate));
  assert_done(cu->cuMemcpyHtoDAsync_v2(memory, from, 4096, one));
  assert_done(cu->cuEventRecord(event, one));
  assert_done(cu->cuStreamWaitEvent(other, event, 0));
  assert_done(cu->cuMemcpyDtoHAsync_v2(to, memory, 4096, other));
  assert_code(cu->cuStreamQuery(other), CUDA_ERROR_NOT_READY);
  let_on(gate);
  assert_done(cu->cuStreamSynchronize(other));
  assert_int_equal(to[4095], 5);
  cu->cuEventDestroy_v2(event);
  cu->cuStreamDestroy_v2(one);
  cu->cuStreamDestroy_v2(other);
  cu->cuMemFree_v2(memory);
  cu->cuMemFreeHost(from);
  cu->cuMemFreeHost(to);
  leave();
  close(gate[0]);
  close(gate[1]);
}

static void only_blocking_streams_wait_for_the_default_one(void **state)
{
  (void)state;
  int gate[2];
  enter();
  assert_int_equal(pipe(gate), 0);
  CUstream blocking = stream_new(0), apart = stream_new(CU_STREAM_NON_BLOCKING);
  CUdeviceptr memory = allocate(4096);
  assert_done(cu->cuLaunchHostFunc(NULL, hold, gate));
  assert_done(cu->cuMemsetD8Async(memory, 1, 10, blocking));
  assert_done(cu->cuMemsetD8Async(memory + 100, 1, 10, apart));
  assert_done(cu->cuStreamSynchronize(apart));
  assert_code(cu->cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
  let_on(gate);
  assert_done(cu->cuStreamSynchronize(blocking));
  assert_done(cu->cuStreamQuery(NULL));
  assert_done(cu->cuCtxSynchronize());
  cu->cuStreamDestroy_v2(blocking);
  cu->cuStreamDestroy_v2(apart);
  cu->cuMemFree_v2(memory);
  leave();
  close(gate[0]);
  close(gate[1]);
}

static void call_within(void *context)
{
  size_t free_bytes, total;
  *(CUresult *)context = cu->cuMemGetInfo_v2(&free_bytes, &total);
}

static void a_host_function_may_not_call_the_driver(void **state)
{
  (void)state;
  CUresult code = CUDA_SUCCESS;
  enter();
  CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
  assert_done(cu->cuLaunchHostFunc(stream, call_within, &code));
  assert_done(cu->cuStreamSynchronize(stream));
  assert_int_not_equal(code, CUDA_SUCCESS);
  cu->cuStreamDestroy_v2(stream);
  leave();
}

// ---- handles, virtual memory ----

static void a_process_cannot_open_its_own_handle(void **state)
{
  (void)state;
  CUipcMemHandle handle;
  CUdeviceptr other;
  enter();
  CUdeviceptr memory = allocate(4 * MIB);
  assert_done(cu->cuIpcGetMemHandle(&handle, memory));
  assert_code(cu->cuIpcOpenMemHandle_v2(&other, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
              CUDA_ERROR_INVALID_CONTEXT);
  cu->cuMemFree_v2(memory);
  leave();
}

typedef struct piece {
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp properties;
  CUmemAccessDesc access;
  size_t bytes;
} piece;

static piece piece_new(void)
{
  piece p = {.properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
             .access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  assert_done(
      cu->cuMemGetAllocationGranularity(&p.bytes, &p.properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  assert_done(cu->cuMemCreate(&p.handle, p.bytes, &p.properties, 0));
  return p;
}

static void pieces_are_mapped_side_by_side(void **state)
{
  (void)state;
  CUdeviceptr base;
  enter();
  piece one = piece_new(), other = piece_new();
  CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
  char written[64], read_back[64];
  memset(written, 3, sizeof(written));
  assert_code(cu->cuMemCreate(&one.handle, one.bytes + 1, &one.properties, 0),
              CUDA_ERROR_INVALID_VALUE);
  assert_done(cu->cuMemAddressReserve(&base, 64 * one.bytes, 0, 0, 0));
  assert_done(cu->cuMemMap(base, one.bytes, 0, one.handle, 0));
  assert_done(cu->cuMemMap(base + one.bytes, one.bytes, 0, other.handle, 0));
  assert_done(cu->cuMemSetAccess(base, 2 * one.bytes, &one.access, 1));
  assert_done(cu->cuMemcpyHtoDAsync_v2(base + one.bytes - 32, written, 64, stream));
  assert_done(cu->cuMemcpyDtoHAsync_v2(read_back, base + one.bytes - 32, 64, stream));
  assert_memory_equal(written, read_back, 64);
  assert_done(cu->cuMemUnmap(base, 2 * one.bytes));
  assert_done(cu->cuMemRelease(one.handle));
  assert_done(cu->cuMemRelease(other.handle));
  assert_done(cu->cuMemAddressFree(base, 64 * one.bytes));
  cu->cuStreamDestroy_v2(stream);
  leave();
}

static void a_piece_goes_on_as_a_descriptor(void **state)
{
  (void)state;
  int fd;
  CUdeviceptr base, again;
  CUmemGenericAllocationHandle imported;
  enter();
  piece p = piece_new();
  CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
  char text[8] = "written", read_back[8];
  assert_done(
      cu->cuMemExportToShareableHandle(&fd, p.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  assert_done(cu->cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
                                                 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  assert_done(cu->cuMemAddressReserve(&base, p.bytes, 0, 0, 0));
  assert_done(cu->cuMemAddressReserve(&again, p.bytes, 0, 0, 0));
  assert_done(cu->cuMemMap(base, p.bytes, 0, p.handle, 0));
  assert_done(cu->cuMemMap(again, p.bytes, 0, imported, 0));
  assert_done(cu->cuMemSetAccess(base, p.bytes, &p.access, 1));
  assert_done(cu->cuMemSetAccess(again, p.bytes, &p.access, 1));
  assert_done(cu->cuMemcpyHtoDAsync_v2(base, text, 8, stream));
  assert_done(cu->cuMemcpyDtoHAsync_v2(read_back, again, 8, stream));
  assert_string_equal(read_back, "written");
  assert_done(cu->cuMemUnmap(base, p.bytes));
  assert_done(cu->cuMemUnmap(again, p.bytes));
  assert_done(cu->cuMemAddressFree(base, p.bytes));
  assert_done(cu->cuMemAddressFree(again, p.bytes));
  assert_done(cu->cuMemRelease(p.handle));
  assert_done(cu->cuMemRelease(imported));
  cu->cuStreamDestroy_v2(stream);
  leave();
}

// ---- what a sanitizer makes of misuse: a program of its own, as which main runs it ----

// The memory of the host is given back while a copy of it is still to come.
static void misuse_free_early(void)
{
  int gate[2];
  enter();
  assert_int_equal(pipe(gate), 0);
  CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
  CUdeviceptr memory = allocate(4096);
  char *from = aligned_alloc(4096, 4096);
  assert_done(cu->cuMemHostRegister_v2(from, 4096, 0));
  assert_done(cu->cuLaunchHostFunc(stream, hold, gate));
  assert_done(cu->cuMemcpyHtoDAsync_v2(memory, from, 4096, stream));
  free(from);
  let_on(gate);
  assert_done(cu->cuStreamSynchronize(stream));
}

// It is used again before the copy to it has been awaited.
static void misuse_use_early(void)
{
  int gate[2];
  enter();
  assert_int_equal(pipe(gate), 0);
  CUstream stream = stream_new(CU_STREAM_NON_BLOCKING);
  CUdeviceptr memory = allocate(4096);
  char *to = allocate_pinned(4096);
  assert_done(cu->cuLaunchHostFunc(stream, hold, gate));
  assert_done(cu->cuMemcpyDtoHAsync_v2(to, memory, 4096, stream));
  let_on(gate);
  to[100] = 1;
  assert_done(cu->cuStreamSynchronize(stream));
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void run_misuse(const char *which, char *report, size_t size)
{
  int output[2], status;
  assert_int_equal(pipe(output), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(output[1], STDERR_FILENO);
    execl("/proc/self/exe", "gpu_fake_test", which, (char *)NULL);
    _exit(0);
  }
  close(output[1]);
  size_t n = 0;
  for (ssize_t got = 1; got > 0; n += (size_t)got)
    if ((got = read(output[0], report + n, n + 1 < size ? size - n - 1 : 0)) < 0)
      got = 0;
  report[n] = '\0';
  close(output[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
}
#endif

#ifdef __SANITIZE_ADDRESS__
static void memory_given_back_too_early_is_found(void **state)
{
  (void)state;
  char report[16384];
  run_misuse("free early", report, sizeof(report));
  assert_non_null(strstr(report, "heap-use-after-free"));
}
#endif

#ifdef __SANITIZE_THREAD__
static void memory_used_too_early_is_found(void **state)
{
  (void)state;
  char report[65536];
  run_misuse("use early", report, sizeof(report));
  assert_non_null(strstr(report, "data race"));
}
#endif

static int open_driver(void **state)
{
  (void)state;
  error *e = gpu_driver_open(&cu);
  if (e != NULL)
    print_message("%s\n", error_message(e));
  return e != NULL || cu->cuDeviceGet(&device, 0) != CUDA_SUCCESS;
}

int main(int count, char **arguments)
{
  if (count == 2 && open_driver(NULL) == 0) {
    (strcmp(arguments[1], "free early") == 0 ? misuse_free_early : misuse_use_early)();
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contexts_are_counted_and_made_by_the_first),
      cmocka_unit_test(a_context_is_current_for_one_thread),
      cmocka_unit_test(memory_goes_with_its_context),
      cmocka_unit_test(the_host_cannot_touch_device_memory),
      cmocka_unit_test(sizes_that_cannot_be_are_refused),
      cmocka_unit_test(the_driver_knows_what_a_pointer_is),
      cmocka_unit_test(host_memory_is_registered_once),
      cmocka_unit_test(copies_are_made_later_and_in_order),
      cmocka_unit_test(pageable_memory_is_free_when_the_call_returns),
      cmocka_unit_test(an_event_is_done_when_what_is_before_it_is),
      cmocka_unit_test(a_stream_waits_for_the_event_of_another),
      cmocka_unit_test(only_blocking_streams_wait_for_the_default_one),
      cmocka_unit_test(a_host_function_may_not_call_the_driver),
      cmocka_unit_test(a_process_cannot_open_its_own_handle),
      cmocka_unit_test(pieces_are_mapped_side_by_side),
      cmocka_unit_test(a_piece_goes_on_as_a_descriptor),
#ifdef __SANITIZE_ADDRESS__
      cmocka_unit_test(memory_given_back_too_early_is_found),
#endif
#ifdef __SANITIZE_THREAD__
      cmocka_unit_test(memory_used_too_early_is_found),
#endif
  };
  return cmocka_run_group_tests(tests, open_driver, NULL);
}
