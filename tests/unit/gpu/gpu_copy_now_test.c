// SPDX-License-Identifier: Apache-2.0
// Copies that are waited for (gpu_copy_now of src/gpu/copy.h): what they cost, what ends them when
// the device does not, and threads that come and go. A device that has gone stays so: each test has
// its own.
#include "gpu_played.h"

#include "gpu/health.h"
#include "gpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define SMALL   ((size_t)4096)
#define LARGE   ((size_t)1 << 20)
#define THREADS 4
#define ROUNDS  40

enum { // ordinals
  GOOD,
  SHARED,
  FIRST_TO_GO,
  PEER_TO_GO = FIRST_TO_GO + 4,
  DEVICES,
};

static int set_up(void **state)
{
  (void)state;
  play_devices(DEVICES);
  assert_int_equal(find_devices()->count, DEVICES);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  play_no_more();
  return 0;
}

static void *take(gpu_pool *pool, size_t bytes)
{
  void *memory;
  assert_good(gpu_pool_take(pool, bytes, &memory));
  assert_non_null(memory);
  return memory;
}

// There and back.
static void assert_copies(void *memory, int device, size_t bytes, unsigned seed)
{
  unsigned char *there = malloc(bytes), *back = calloc(1, bytes);
  fill_bytes(there, bytes, seed);
  assert_good(gpu_copy_now(memory, ON(device), there, HOST, bytes, "x"));
  assert_good(gpu_copy_now(back, HOST, memory, ON(device), bytes, "x"));
  assert_memory_equal(there, back, bytes);
  free(there);
  free(back);
}

static void bytes_of_any_count_come_back_as_they_went(void **state)
{
  static const size_t sizes[] = {1,         SMALL, LARGE / 4, LARGE / 4 + 1, LARGE / 2 + 1,
                                 LARGE - 1, LARGE};
  (void)state;
  gpu_pool *pool;
  assert_good(gpu_pool_new(ON(GOOD), LARGE, &pool));
  void *memory = take(pool, LARGE);
  // It does without, the first time, and then with one lane for two.
  play("{\"function\": \"cuMemHostAlloc\", \"code\": 999, \"spares\": true},"
       "{\"function\": \"cuStreamCreateWithPriority\", \"code\": 1, \"at\": 2}");
  for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
    assert_copies(memory, GOOD, sizes[i], i);
  assert_int_equal(gpu_health_of(GOOD), GPU_HEALTH_GOOD);
  play("");
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
}

static void a_copy_that_was_made_before_costs_seven_calls_and_none_that_waits(void **state)
{
  (void)state;
  gpu_pool *pool;
  assert_good(gpu_pool_new(ON(GOOD), SMALL, &pool));
  void *memory = take(pool, SMALL);
  assert_copies(memory, GOOD, SMALL, 1);
  uint64_t calls = counted("cu"), asked = counted("cuStreamQuery"), waits = counted("syncs"),
           allocations = counted("allocations"), pageable = counted("pageable_copies");
  assert_copies(memory, GOOD, SMALL, 2);
  asked = counted("cuStreamQuery") - asked;
  assert_true(asked >= 2);
  assert_int_equal(counted("cu") - calls - asked, 14); // its context comes and goes: six of seven
  assert_int_equal(counted("syncs"), waits);
  assert_int_equal(counted("allocations"), allocations);
  assert_int_equal(counted("pageable_copies"), pageable);
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
}

static void a_copy_that_fails_in_the_middle_leaves_nothing_behind(void **state)
{
  (void)state;
  gpu_pool *pool;
  unsigned char *host = calloc(1, LARGE);
  assert_good(gpu_pool_new(ON(GOOD), LARGE, &pool));
  void *memory = take(pool, LARGE);
  play("{\"function\": \"cuMemcpy*\", \"code\": 2, \"at\": 3}");
  assert_error(gpu_copy_now(host, HOST, memory, ON(GOOD), LARGE, "output 'A'"), ERROR_UNAVAILABLE,
               "output 'A': failed to perform CUDA copy: out of memory");
  play("{\"function\": \"cuMemcpy*\", \"code\": 2, \"at\": 4}");
  assert_error(gpu_copy_now(memory, ON(GOOD), host, HOST, LARGE, "input 'A'"), ERROR_UNAVAILABLE,
               "input 'A': failed to perform CUDA copy: out of memory");
  play("");
  assert_copies(memory, GOOD, LARGE, 3);
  assert_int_equal(gpu_health_of(GOOD), GPU_HEALTH_GOOD);
  free(host);
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
}

static _Atomic bool let_on;

static void *let_it_on(void *before)
{
  await_call("cuMemcpyHtoDAsync_v2", *(const uint64_t *)before + 1);
  let_on = true;
  play("");
  return NULL;
}

static void what_is_under_way_when_a_copy_fails_is_waited_for(void **state)
{
  (void)state;
  gpu_pool *pool;
  pthread_t thread;
  unsigned char *host = calloc(1, LARGE);
  uint64_t before = counted("cuMemcpyHtoDAsync_v2");
  assert_good(gpu_pool_new(ON(GOOD), LARGE, &pool));
  void *memory = take(pool, LARGE);
  play("{\"function\": \"cuMemcpyHtoDAsync_v2\", \"later\": true, \"hang\": true},"
       "{\"function\": \"cuMemcpyHtoDAsync_v2\", \"code\": 2, \"at\": 2}");
  assert_int_equal(pthread_create(&thread, NULL, let_it_on, &before), 0);
  assert_error(gpu_copy_now(memory, ON(GOOD), host, HOST, LARGE, "input 'A'"), ERROR_UNAVAILABLE,
               "out of memory");
  assert_true(let_on);
  pthread_join(thread, NULL);
  free(host);
  gpu_pool_give_back(pool, memory);
  gpu_pool_free(pool);
}

// ---- devices that go ----

typedef struct loss {
  int device;
  const char *function; // which does not end there
  uint64_t before;
} loss;

static void *lose_it(void *argument)
{
  const loss *l = argument;
  await_call(l->function, l->before);
  gpu_health_tell_gone(l->device, "the GPU has fallen off the bus", "Xid 79");
  return NULL;
}

// What frees things is not called, as it might not come back either.
static void play_hang(const loss *l)
{
  char faults[800];
  snprintf(faults, sizeof(faults),
           "{\"function\": \"%s\", \"later\": true, \"hang\": true, \"device\": %d},"
           "{\"function\": \"cuMemFree*\", \"hang\": true, \"device\": %d},"
           "{\"function\": \"cuStreamDestroy_v2\", \"hang\": true, \"device\": %d},"
           "{\"function\": \"cuDevicePrimaryCtxRelease_v2\", \"hang\": true}",
           l->function, l->device, l->device, l->device);
  play(faults);
}

static void assert_ends(const loss *l, void *to, gpu_place to_place, const void *from,
                        gpu_place from_place)
{
  char text[120];
  pthread_t thread;
  snprintf(
      text, sizeof(text),
      "output 'A': failed to perform CUDA copy: GPU %d: the GPU has fallen off the bus (Xid 79)",
      l->device);
  play_hang(l);
  assert_int_equal(pthread_create(&thread, NULL, lose_it, (void *)l), 0);
  assert_error(gpu_copy_now(to, to_place, from, from_place, SMALL, "output 'A'"), ERROR_UNAVAILABLE,
               text);
  pthread_join(thread, NULL);
}

static void a_copy_ends_when_its_device_has_gone_and_so_does_what_frees_its_memory(void **state)
{
  static const gpu_memory_kind ends[][2] = {
      {GPU_MEMORY_HOST, GPU_MEMORY_DEVICE},
      {GPU_MEMORY_DEVICE, GPU_MEMORY_HOST},
      {GPU_MEMORY_PINNED, GPU_MEMORY_DEVICE},
      {GPU_MEMORY_DEVICE, GPU_MEMORY_DEVICE},
  };
  static const char *const functions[] = {"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
                                          "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"};
  (void)state;
  gpu_pool *pinned, *other;
  unsigned char host[SMALL] = {0};
  assert_good(gpu_pool_new(PINNED(GOOD), SMALL, &pinned));
  assert_good(gpu_pool_new(ON(GOOD), SMALL, &other));
  void *memory[] = {host, take(pinned, SMALL), NULL}, *good = take(other, SMALL);
  for (int i = 0; i < 4; i++) {
    const loss l = {FIRST_TO_GO + i, functions[i], counted(functions[i])};
    gpu_pool *pool;
    assert_good(gpu_pool_new(ON(l.device), SMALL, &pool));
    memory[GPU_MEMORY_DEVICE] = take(pool, SMALL);
    assert_ends(&l, memory[ends[i][0]], (gpu_place){ends[i][0], l.device}, memory[ends[i][1]],
                (gpu_place){ends[i][1], l.device});
    assert_copies(good, GOOD, SMALL, 4);
    gpu_pool_give_back(pool, memory[GPU_MEMORY_DEVICE]);
    gpu_pool_free(pool);
    assert_error(gpu_context_hold(l.device), ERROR_UNAVAILABLE, "has fallen off the bus");
  }
  play("");
  gpu_pool_give_back(pinned, memory[GPU_MEMORY_PINNED]);
  gpu_pool_free(pinned);
  gpu_pool_give_back(other, good);
  gpu_pool_free(other);
}

static void a_copy_between_devices_ends_when_the_one_that_has_no_stream_of_it_has_gone(void **state)
{
  (void)state;
  gpu_pool *to, *from;
  const loss l = {PEER_TO_GO, "cuMemcpyPeerAsync", counted("cuMemcpyPeerAsync")};
  assert_good(gpu_pool_new(ON(GOOD), SMALL, &to));
  assert_good(gpu_pool_new(ON(PEER_TO_GO), SMALL, &from));
  void *here = take(to, SMALL), *there = take(from, SMALL);
  pthread_t thread;
  play("{\"function\": \"cuMemcpyPeerAsync\", \"later\": true, \"hang\": true}");
  assert_int_equal(pthread_create(&thread, NULL, lose_it, (void *)&l), 0);
  assert_error(gpu_copy_now(here, ON(GOOD), there, ON(PEER_TO_GO), SMALL, "x"), ERROR_UNAVAILABLE,
               "x: failed to perform CUDA copy: GPU 6: the GPU has fallen off the bus (Xid 79)");
  pthread_join(thread, NULL);
  uint64_t calls = counted("cu");
  assert_error(gpu_copy_now(here, ON(GOOD), there, ON(PEER_TO_GO), SMALL, "x"), ERROR_UNAVAILABLE,
               "has fallen off the bus");
  assert_int_equal(counted("cu"), calls); // it is not begun
  play("");
  gpu_pool_give_back(to, here);
  gpu_pool_free(to);
  gpu_pool_give_back(from, there);
  gpu_pool_free(from);
}

// ---- threads ----

static void *copy_for_a_while(void *memory)
{
  for (unsigned i = 0; i < ROUNDS; i++)
    assert_copies(memory, SHARED, SMALL, i);
  return NULL;
}

// The memory is another's, as a client's region is the front end's: nobody holds the device for the
// layer but copies, one of which is always about to be the last.
static void threads_copy_while_the_last_holder_leaves(void **state)
{
  (void)state;
  const gpu_device *device = &find_devices()->items[SHARED];
  const gpu_driver *driver = gpu_driver_opened();
  pthread_t threads[THREADS];
  CUcontext context;
  CUdeviceptr memory;
  assert_int_equal(driver->cuDevicePrimaryCtxRetain(&context, device->handle), CUDA_SUCCESS);
  assert_int_equal(driver->cuCtxSetCurrent(context), CUDA_SUCCESS);
  assert_int_equal(driver->cuMemAlloc_v2(&memory, THREADS * SMALL), CUDA_SUCCESS);
  for (unsigned i = 0; i < THREADS; i++)
    assert_int_equal(
        pthread_create(&threads[i], NULL, copy_for_a_while, (char *)(uintptr_t)memory + i * SMALL),
        0);
  for (int i = 0; i < ROUNDS; i++) {
    assert_good(gpu_context_hold(SHARED));
    gpu_context_release(SHARED);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_null(gpu_context_of(SHARED));
  assert_int_equal(driver->cuMemFree_v2(memory), CUDA_SUCCESS);
  assert_int_equal(driver->cuCtxSetCurrent(NULL), CUDA_SUCCESS);
  assert_int_equal(driver->cuDevicePrimaryCtxRelease_v2(device->handle), CUDA_SUCCESS);
  assert_false(gpu_context_is_active(SHARED));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_of_any_count_come_back_as_they_went),
      cmocka_unit_test(a_copy_that_was_made_before_costs_seven_calls_and_none_that_waits),
      cmocka_unit_test(a_copy_that_fails_in_the_middle_leaves_nothing_behind),
      cmocka_unit_test(what_is_under_way_when_a_copy_fails_is_waited_for),
      cmocka_unit_test(threads_copy_while_the_last_holder_leaves),
      cmocka_unit_test(a_copy_ends_when_its_device_has_gone_and_so_does_what_frees_its_memory),
      cmocka_unit_test(a_copy_between_devices_ends_when_the_one_that_has_no_stream_of_it_has_gone),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
