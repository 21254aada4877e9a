// SPDX-License-Identifier: Apache-2.0
// What happens when devices fail (src/gpu/health.h), and what devices lack. Needs the played driver
// (tests/fakes/gpu), whose faults it writes into the file that NEREID_FAKE_GPU names. What a device
// has suffered stays: each test has its own.
#include "gpu_counted.h"

#include "gpu/health.h"
#include "gpu/ipc.h"
#include "gpu/pool.h"
#include "gpu/sampler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { // ordinals
  GOOD,
  FAILS_IN_A_CALL,
  FAILS_ELSEWHERE,
  HAS_XIDS,
  IS_LOST,
  LACKS_ALL,
  FIRST_SLICE,
  SECOND_SLICE,
  HANGS,
  HEARS,
  DIES,
  DEVICES,
};

static char path[] = "/tmp/gpu_fault_test_XXXXXX";

// As a server in the process has it: what its copy of the layer knows.
static atomic_int server_says[DEVICES];

int NEREID_GpuHealth(int device, char *text, size_t size)
{
  snprintf(text, size, "GPU %d: the server says so", device);
  return device >= 0 && device < DEVICES ? server_says[device] : GPU_HEALTH_GOOD;
}

// The file changes at once, as a whole.
static void play(const char *xids, const char *faults)
{
  char next[sizeof(path) + 4];
  snprintf(next, sizeof(next), "%s.new", path);
  FILE *file = fopen(next, "w");
  assert_non_null(file);
  fprintf(file,
          "{\"devices\": [{\"pci\": \"0000:01:00.0\", \"utilization\": 40, \"energy_mj\": %s},"
          "{\"pci\": \"0000:02:00.0\"}, {\"pci\": \"0000:03:00.0\"},"
          "{\"pci\": \"0000:04:00.0\", \"xids\": [%s]}, {\"pci\": \"0000:05:00.0\"},"
          "{\"pci\": \"0000:06:00.0\", \"vmm\": false, \"fds\": false, \"ipc\": false},",
          faults[0] == '\0' ? "1000" : "4500", xids);
  for (int i = 1; i < 3; i++)
    fprintf(file,
            "{\"pci\": \"0000:07:00.0\", \"name\": \"NVIDIA Fake MIG 1g.18gb\","
            " \"uuid\": \"MIG-f4ce0000-0000-4000-8000-00000000000%d\","
            " \"parent_uuid\": \"GPU-f4ce0000-0000-4000-8000-000000000009\"},",
            i);
  fprintf(file,
          "{\"pci\": \"0000:08:00.0\"}, {\"pci\": \"0000:09:00.0\"},"
          "{\"pci\": \"0000:0a:00.0\"}], \"faults\": [%s]}",
          faults);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(rename(next, path), 0);
}

static int set_up(void **state)
{
  (void)state;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  count_calls(path);
  play("", "");
  setenv("NEREID_FAKE_GPU", path, 1);
  assert_int_equal(find_devices()->count, DEVICES);
  gpu_health_look(); // listens for Xids from then on
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  unlink(played_counters);
  return unlink(path);
}

static void assert_fault(int device, gpu_health_state state, const char *text)
{
  char found[200];
  assert_int_equal(gpu_health_of(device), state);
  gpu_health_text(device, found, sizeof(found));
  assert_string_equal(found, text);
}

static void a_fault_in_a_call_marks_its_device_alone(void **state)
{
  (void)state;
  gpu_pool *pool, *other;
  gpu_stream *stream;
  gpu_event *event;
  void *memory;
  bool done;
  assert_good(gpu_pool_new(ON(FAILS_IN_A_CALL), 4096, &pool));
  assert_good(gpu_pool_take(pool, 8, &memory));
  assert_good(gpu_stream_new(FAILS_IN_A_CALL, 0, &stream));
  assert_good(gpu_event_new(FAILS_IN_A_CALL, &event));
  play("", "{\"function\": \"cuMemcpyHtoDAsync_v2\", \"code\": 700, \"device\": 1}");
  assert_error(
      gpu_copy(memory, ON(FAILS_IN_A_CALL), "1234567", HOST, 8, stream, "input tensor 'A'", &done),
      ERROR_INTERNAL,
      "input tensor 'A': failed to perform CUDA copy: an illegal memory access was "
      "encountered (CUDA_ERROR_ILLEGAL_ADDRESS)");
  play("", "");
  const char *text = "GPU 1: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)";
  assert_fault(FAILS_IN_A_CALL, GPU_HEALTH_CONTEXT_DEAD, text);
  error *e = gpu_event_record(event, stream); // nothing works there any more
  assert_non_null(e);
  error_free(e);
  gpu_health_look();
  assert_fault(FAILS_IN_A_CALL, GPU_HEALTH_CONTEXT_DEAD, text);
  gpu_event_free(event);
  gpu_stream_free(stream);
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
  assert_null(gpu_context_of(FAILS_IN_A_CALL));
  assert_good(gpu_pool_new(ON(GOOD), 4096, &other)); // another one does
  gpu_pool_free(other);
  assert_fault(GOOD, GPU_HEALTH_GOOD, "");
}

static void what_is_no_fault_of_the_device_does_not_mark_it(void **state)
{
  (void)state;
  gpu_pool *pool;
  gpu_stream *stream;
  gpu_mapping mapping;
  const unsigned char handle[64] = {1};
  play("", "{\"function\": \"cuMemAlloc_v2\", \"code\": 2}");
  assert_error(gpu_pool_new(ON(GOOD), 4096, &pool), ERROR_UNAVAILABLE,
               "GPU 0: no 4096 bytes of device memory: out of memory (CUDA_ERROR_OUT_OF_MEMORY)");
  play("", "{\"function\": \"cuStreamCreateWithPriority\", \"code\": 1}");
  assert_error(gpu_stream_new(GOOD, 0, &stream), ERROR_INTERNAL, "GPU 0: no stream: ");
  play("", "{\"function\": \"cuDevicePrimaryCtxRetain\", \"code\": 2}");
  assert_error(gpu_context_hold(GOOD), ERROR_UNAVAILABLE, "GPU 0: no context: ");
  // which a handle that a client made up may lead to
  play("", "{\"function\": \"cuIpcOpenMemHandle_v2\", \"code\": 999, \"spares\": true}");
  assert_error(gpu_ipc_open(GOOD, handle, &mapping), ERROR_INTERNAL,
               "failed to open CUDA IPC handle: unknown error (CUDA_ERROR_UNKNOWN)");
  play("", "");
  assert_fault(GOOD, GPU_HEALTH_GOOD, "");
  assert_null(gpu_context_of(GOOD));
}

// As a framework in the same process does, or another copy of the layer.
static void what_others_did_to_a_context_is_found_by_looking(void **state)
{
  (void)state;
  const gpu_driver *driver;
  assert_good(gpu_driver_open(&driver));
  assert_good(gpu_context_hold(FAILS_ELSEWHERE));
  gpu_health_look();
  gpu_health_look();
  assert_fault(FAILS_ELSEWHERE, GPU_HEALTH_GOOD, "");
  play("", "{\"function\": \"cuCtxSynchronize\", \"code\": 710}");
  assert_good(gpu_context_enter(FAILS_ELSEWHERE));
  assert_int_equal(driver->cuCtxSynchronize(), CUDA_ERROR_ASSERT);
  play("", "");
  gpu_health_look();
  assert_fault(FAILS_ELSEWHERE, GPU_HEALTH_CONTEXT_DEAD,
               "GPU 2: device-side assert triggered (CUDA_ERROR_ASSERT)");
  gpu_context_release(FAILS_ELSEWHERE);
}

static void xids_are_counted_and_some_mean_that_the_gpu_is_lost(void **state)
{
  (void)state;
  assert_int_equal(gpu_health_xids(HAS_XIDS), 0);
  assert_int_equal(gpu_health_last_xid(HAS_XIDS), 0);
  play("43, 94", "");
  gpu_health_look();
  assert_int_equal(gpu_health_xids(HAS_XIDS), 2);
  assert_int_equal(gpu_health_last_xid(HAS_XIDS), 94);
  assert_fault(HAS_XIDS, GPU_HEALTH_GOOD, "");
  play("43, 94, 79, 48", "");
  gpu_health_look();
  assert_int_equal(gpu_health_xids(HAS_XIDS), 4);
  assert_int_equal(gpu_health_last_xid(HAS_XIDS), 48);
  assert_fault(HAS_XIDS, GPU_HEALTH_GONE, "GPU 3: the GPU has fallen off the bus (Xid 79)");
  gpu_health_tell(HAS_XIDS, CUDA_ERROR_ILLEGAL_ADDRESS); // what is worse stays
  assert_int_equal(gpu_health_of(HAS_XIDS), GPU_HEALTH_GONE);
  assert_int_equal(gpu_health_xids(GOOD), 0);
  assert_int_equal(gpu_health_xids(99), 0);
}

// Of whom no stream does anything any more, which what is heard of the device leaves open.
static void a_dead_context_is_remembered_when_worse_is_heard(void **state)
{
  (void)state;
  server_says[DIES] = GPU_HEALTH_LOST;
  uint64_t made = counted("cuDevicePrimaryCtxRetain");
  assert_error(gpu_context_hold(DIES), ERROR_UNAVAILABLE, "GPU 10: the server says so");
  assert_int_equal(counted("cuDevicePrimaryCtxRetain"), made); // it might never come back
  assert_false(gpu_health_is_dead(DIES));
  gpu_health_tell(DIES, CUDA_ERROR_OUT_OF_MEMORY);
  assert_false(gpu_health_is_dead(DIES));
  gpu_health_tell(DIES, CUDA_ERROR_ILLEGAL_ADDRESS);
  assert_int_equal(gpu_health_of(DIES), GPU_HEALTH_LOST);
  assert_true(gpu_health_is_dead(DIES));
}

static void nvml_says_which_gpu_is_lost(void **state)
{
  (void)state;
  play("", "{\"function\": \"nvmlEventSetWait_v2\", \"code\": 15},"
           "{\"function\": \"nvmlDeviceGetPowerUsage\", \"code\": 15, \"device\": 4}");
  gpu_health_look();
  play("", "");
  assert_fault(IS_LOST, GPU_HEALTH_GONE, "GPU 4: the GPU is lost (NVML_ERROR_GPU_IS_LOST)");
  assert_fault(GOOD, GPU_HEALTH_GOOD, "");
}

static void what_a_device_lacks_is_said(void **state)
{
  (void)state;
  gpu_region *region;
  gpu_pool *pool;
  void *memory;
  unsigned char handle[64];
  size_t offset;
  assert_false(find_devices()->items[LACKS_ALL].exports_fds);
  assert_error(gpu_region_new(LACKS_ALL, 4096, &region), ERROR_UNSUPPORTED,
               "GPU 5: no regions of virtual memory: the device has none");
  assert_good(gpu_pool_new(ON(LACKS_ALL), 4096, &pool));
  assert_good(gpu_pool_take(pool, 8, &memory));
  assert_error(gpu_ipc_export(LACKS_ALL, memory, handle, &offset), ERROR_UNSUPPORTED,
               "(CUDA_ERROR_NOT_SUPPORTED); this platform has no CUDA IPC");
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
  assert_null(gpu_context_of(LACKS_ALL));
}

static void samples_are_of_the_whole_device_and_less_is_known_of_slices(void **state)
{
  (void)state;
  gpu_sampler *sampler;
  gpu_sample s;
  play("", "");
  assert_good(gpu_sampler_new(find_devices(), &sampler));
  play("", "{\"function\": \"nothing\", \"code\": 0}"); // 3.5 J more
  gpu_sampler_take(sampler, GOOD, &s);
  assert_true(s.utilization == 0.4 && s.power_watts == 75 && s.power_limit_watts == 700);
  assert_true(s.energy_joules == 3.5);
  assert_true(s.memory_total_bytes == (double)(1 << 30) && s.memory_used_bytes >= 0);
  gpu_sampler_take(sampler, SECOND_SLICE, &s);
  assert_true(s.utilization < 0 && s.power_watts < 0 && s.energy_joules < 0);
  assert_true(s.memory_total_bytes > 0);
  play("", "{\"function\": \"nvmlDeviceGetPowerUsage\", \"code\": 3}");
  gpu_sampler_take(sampler, GOOD, &s);
  assert_true(s.power_watts < 0 && s.power_limit_watts == 700);
  play("", "");
  gpu_sampler_free(sampler);
  gpu_sampler_free(NULL);
  play("", "{\"function\": \"nvmlInit_v2\", \"code\": 9}");
  assert_error(gpu_sampler_new(find_devices(), &sampler), ERROR_UNAVAILABLE,
               "NVML does not start: the NVIDIA driver is not loaded (9)");
  play("", "");
}

static void slices_are_named_by_their_own_uuid(void **state)
{
  (void)state;
  const gpu_device *d = &find_devices()->items[FIRST_SLICE];
  assert_true(d->slice);
  assert_string_equal(d->uuid, "MIG-f4ce0000-0000-4000-8000-000000000001");
  assert_string_equal(d[1].uuid, "MIG-f4ce0000-0000-4000-8000-000000000002");
}

// The next fill of this device hangs: a stream of another one may still have its call before it.
static void play_hang(int device)
{
  char fault[128];
  snprintf(fault, sizeof(fault),
           "{\"function\": \"cuMemsetD8Async\", \"device\": %d, \"later\": true, \"hang\": true}",
           device);
  play("", fault);
}

static void a_stream_that_hangs_is_waited_for_no_longer_than_asked(void **state)
{
  (void)state;
  gpu_pool *pool;
  gpu_stream *stream;
  gpu_event *event;
  void *memory;
  bool done = true;
  assert_good(gpu_pool_new(ON(GOOD), 4096, &pool));
  assert_good(gpu_pool_take(pool, 8, &memory));
  assert_good(gpu_stream_new(GOOD, 0, &stream));
  assert_good(gpu_event_new(GOOD, &event));
  play_hang(GOOD);
  assert_good(gpu_fill(memory, GOOD, 1, 8, stream));
  assert_good(gpu_event_record(event, stream));
  assert_good(gpu_event_wait(event, 2000, &done));
  assert_false(done);
  assert_good(gpu_event_query(event, &done));
  assert_false(done);
  play("", "");
  assert_good(gpu_event_wait(event, -1, &done));
  assert_true(done);
  gpu_event_free(event);
  gpu_stream_free(stream);
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
}

typedef struct hung {
  gpu_pool *pool;
  gpu_stream *stream;
  gpu_event *event; // behind what never ends
  void *memory;
} hung;

static void hang(hung *h, int device)
{
  assert_good(gpu_pool_new(ON(device), 4096, &h->pool));
  assert_good(gpu_pool_take(h->pool, 8, &h->memory));
  assert_good(gpu_stream_new(device, 0, &h->stream));
  assert_good(gpu_event_new(device, &h->event));
  play_hang(device);
  assert_good(gpu_fill(h->memory, device, 1, 8, h->stream));
  assert_good(gpu_event_record(h->event, h->stream));
}

static void heal(hung *h)
{
  play("", "");
  gpu_event_free(h->event);
  gpu_stream_free(h->stream);
  gpu_pool_give_back(h->pool, h->memory);
  gpu_pool_free(h->pool);
}

static void assert_refused(const hung *h, int device, const char *text)
{
  const unsigned char handle[64] = {0};
  gpu_mapping mapping;
  bool done;
  assert_error(
      gpu_copy(h->memory, ON(device), "1234567", HOST, 8, h->stream, "input tensor 'A'", &done),
      ERROR_UNAVAILABLE, "input tensor 'A': failed to perform CUDA copy: GPU ");
  assert_error(gpu_copy_now(h->memory, ON(device), "1234567", HOST, 8, "x"), ERROR_UNAVAILABLE,
               text);
  assert_error(gpu_ipc_open(device, handle, &mapping), ERROR_UNAVAILABLE, text);
}

// Once it is waited for: the calls that asked before.
static void *lose_it(void *before)
{
  await_call("cuEventQuery", *(const uint64_t *)before);
  gpu_health_tell_gone(HANGS, "the GPU has fallen off the bus", "Xid 79");
  return NULL;
}

static void a_wait_for_a_device_that_has_gone_ends(void **state)
{
  (void)state;
  hung h;
  pthread_t thread;
  bool done = true;
  const char *text = "GPU 8: the GPU has fallen off the bus (Xid 79)";
  hang(&h, HANGS);
  uint64_t before = counted("cuEventQuery");
  assert_int_equal(pthread_create(&thread, NULL, lose_it, &before), 0);
  assert_error(gpu_event_wait(h.event, -1, &done), ERROR_UNAVAILABLE, text);
  assert_false(done);
  pthread_join(thread, NULL);
  assert_error(gpu_stream_synchronize(h.stream), ERROR_UNAVAILABLE, text);
  assert_refused(&h, HANGS, text);
  heal(&h);
}

static void *have_the_server_say_it(void *before)
{
  await_call("cuEventQuery", *(const uint64_t *)before);
  server_says[HEARS] = GPU_HEALTH_GONE;
  return NULL;
}

static void what_the_server_knows_is_heard_by_each_copy_of_the_layer(void **state)
{
  (void)state;
  hung h;
  pthread_t thread;
  bool done = true;
  const char *text = "GPU 9: the server says so";
  hang(&h, HEARS);
  server_says[HEARS] = GPU_HEALTH_CONTEXT_DEAD; // of its own process
  assert_false(gpu_health_is_gone(HEARS));
  assert_fault(HEARS, GPU_HEALTH_GOOD, "");
  server_says[HEARS] = GPU_HEALTH_LOST;
  assert_refused(&h, HEARS, text);
  assert_good(gpu_event_wait(h.event, 1000, &done)); // it may still use the memory
  assert_false(done);
  assert_fault(HEARS, GPU_HEALTH_LOST, text);
  assert_error(gpu_fill(h.memory, HEARS, 1, 8, h.stream), ERROR_UNAVAILABLE, text);
  uint64_t before = counted("cuEventQuery");
  assert_int_equal(pthread_create(&thread, NULL, have_the_server_say_it, &before), 0);
  assert_error(gpu_event_wait(h.event, -1, &done), ERROR_UNAVAILABLE, text);
  pthread_join(thread, NULL);
  assert_error(gpu_stream_synchronize(h.stream), ERROR_UNAVAILABLE, text);
  heal(&h);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fault_in_a_call_marks_its_device_alone),
      cmocka_unit_test(what_is_no_fault_of_the_device_does_not_mark_it),
      cmocka_unit_test(what_others_did_to_a_context_is_found_by_looking),
      cmocka_unit_test(xids_are_counted_and_some_mean_that_the_gpu_is_lost),
      cmocka_unit_test(a_dead_context_is_remembered_when_worse_is_heard),
      cmocka_unit_test(nvml_says_which_gpu_is_lost),
      cmocka_unit_test(what_a_device_lacks_is_said),
      cmocka_unit_test(samples_are_of_the_whole_device_and_less_is_known_of_slices),
      cmocka_unit_test(slices_are_named_by_their_own_uuid),
      cmocka_unit_test(a_stream_that_hangs_is_waited_for_no_longer_than_asked),
      cmocka_unit_test(a_wait_for_a_device_that_has_gone_ends),
      cmocka_unit_test(what_the_server_knows_is_heard_by_each_copy_of_the_layer),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
