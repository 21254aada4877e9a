// SPDX-License-Identifier: Apache-2.0
// Devices and their primary contexts (src/gpu/device.h, context.h).
#include "gpu_testing.h"

#include "gpu/stream.h"

#include <pthread.h>
#include <stdlib.h>

static void every_device_says_what_it_is_and_none_has_a_context(void **state)
{
  (void)state;
  const gpu_devices *devices = find_devices();
  for (size_t i = 0; i < devices->count; i++) {
    const gpu_device *d = &devices->items[i];
    unsigned domain, bus, device, function;
    assert_int_equal(d->ordinal, i);
    assert_true(d->name[0] != '\0' && d->major > 0 && d->memory_bytes > 0);
    assert_int_equal(strlen(d->uuid), 40);
    assert_memory_equal(d->uuid, d->slice ? "MIG-" : "GPU-", 4);
    assert_int_equal(sscanf(d->pci_id, "%x:%x:%x.%x", &domain, &bus, &device, &function), 4);
    for (size_t j = 0; j < i; j++)
      assert_string_not_equal(d->uuid, devices->items[j].uuid);
    assert_false(gpu_context_is_active(d->ordinal));
    assert_null(gpu_context_of(d->ordinal));
  }
}

static void capabilities_are_compared_as_triton_does(void **state)
{
  (void)state;
  gpu_device d = {.major = 7, .minor = 5};
  assert_true(gpu_device_supported(&d, 7.5));
  assert_true(gpu_device_supported(&d, 7.509));
  assert_false(gpu_device_supported(&d, 7.52));
  assert_true(gpu_device_supported(&d, 0));
  d = (gpu_device){.major = 12, .minor = 0};
  assert_true(gpu_device_supported(&d, 9.0));
  assert_false(gpu_device_supported(&d, 100.0));
}

static void a_context_lives_from_the_first_hold_to_the_last_release(void **state)
{
  (void)state;
  find_devices();
  assert_good(gpu_context_hold(0));
  assert_good(gpu_context_hold(0));
  assert_true(gpu_context_is_active(0));
  assert_non_null(gpu_context_of(0));
  gpu_context_release(0);
  assert_true(gpu_context_is_active(0));
  gpu_context_release(0);
  assert_null(gpu_context_of(0));
  assert_false(gpu_context_is_active(0));
  assert_good(gpu_context_hold(0)); // and again
  assert_true(gpu_context_is_active(0));
  gpu_context_release(0);
}

static void a_device_that_is_not_there_is_named(void **state)
{
  (void)state;
  char text[64];
  snprintf(text, sizeof(text), "there is no GPU 99: CUDA shows %zu", find_devices()->count);
  assert_error(gpu_context_hold(99), ERROR_INVALID_ARG, text);
  assert_error(gpu_context_hold(-1), ERROR_INVALID_ARG, "there is no GPU -1");
  assert_false(gpu_context_is_active(99));
}

static void a_device_that_nobody_holds_cannot_be_entered(void **state)
{
  (void)state;
  CUcontext before;
  find_devices();
  assert_error(gpu_context_enter(0), ERROR_INTERNAL, "GPU 0 is not in use by this process");
  assert_error(gpu_context_visit(99, &before), ERROR_INTERNAL, "GPU 99 is not in use");
}

static CUcontext current(void)
{
  CUcontext context;
  assert_int_equal(gpu_driver_opened()->cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

static void a_visitor_leaves_what_was_current(void **state)
{
  (void)state;
  gpu_stream *stream;
  CUcontext before;
  find_devices();
  assert_null(current());
  assert_good(gpu_stream_new(0, 0, &stream));
  assert_null(current()); // making a stream was such a visit
  assert_good(gpu_context_visit(0, &before));
  assert_ptr_equal(current(), gpu_context_of(0));
  gpu_context_leave(before);
  assert_null(current());
  assert_good(gpu_context_enter(0));
  assert_good(gpu_stream_synchronize(stream));
  assert_ptr_equal(current(), gpu_context_of(0));
  gpu_stream_free(stream);
  assert_null(current()); // it has gone
}

static int capture_mode(void)
{
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED, same;
  assert_int_equal(gpu_driver_opened()->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  same = mode;
  assert_int_equal(gpu_driver_opened()->cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  return same;
}

static void *enter(void *unused)
{
  const int usual = capture_mode();
  CUcontext outer, inner;
  assert_good(gpu_context_visit(0, &outer));
  assert_good(gpu_context_visit(0, &inner));
  gpu_context_leave(inner);
  assert_int_equal(capture_mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  gpu_context_leave(outer);
  assert_int_equal(capture_mode(), usual);
  for (int i = 0; i < 2; i++) {
    assert_good(gpu_context_enter(0));
    assert_int_equal(capture_mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  return unused;
}

static void calls_are_let_be_while_another_thread_captures_a_graph(void **state)
{
  (void)state;
  pthread_t thread; // what it enters stays so
  find_devices();
  assert_good(gpu_context_hold(0));
  assert_int_not_equal(capture_mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  assert_int_equal(pthread_create(&thread, NULL, enter, NULL), 0);
  pthread_join(thread, NULL);
  assert_int_not_equal(capture_mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  gpu_context_release(0);
}

#define THREADS 6
#define ROUNDS  12

static void *hold_and_release(void *argument)
{
  int device = *(const int *)argument;
  for (int i = 0; i < ROUNDS; i++) {
    CUcontext before;
    gpu_lane *lane;
    assert_good(gpu_context_hold(device));
    assert_good(gpu_context_visit(device, &before));
    assert_int_equal(gpu_context_take_lane(device, &lane), CUDA_SUCCESS);
    gpu_context_give_lane(device, lane, true);
    gpu_context_leave(before);
    assert_int_equal(gpu_context_ask(device), CUDA_SUCCESS);
    gpu_context_release(device);
  }
  return NULL;
}

static void many_threads_hold_and_release(void **state)
{
  (void)state;
  pthread_t threads[THREADS];
  int devices[THREADS];
  int count = (int)find_devices()->count;
  for (int i = 0; i < THREADS; i++) {
    devices[i] = i % count;
    assert_int_equal(pthread_create(&threads[i], NULL, hold_and_release, &devices[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < count; i++)
    assert_null(gpu_context_of(i));
}

static void devices_that_reach_each_other_are_let_to(void **state)
{
  (void)state;
  const gpu_devices *found = find_devices();
  const int others[] = {0, 1};
  assert_good(gpu_context_hold(0));
  assert_good(gpu_context_enable_peers(0, others, 1)); // alone
  if (found->count > 1) {
    int can[2];
    const gpu_driver *driver = gpu_driver_opened();
    for (int i = 0; i < 2; i++)
      assert_int_equal(driver->cuDeviceCanAccessPeer(&can[i], found->items[i].handle,
                                                     found->items[1 - i].handle),
                       CUDA_SUCCESS);
    assert_good(gpu_context_enable_peers(0, others, 2)); // GPU 1 is not held: nothing to do
    assert_good(gpu_context_hold(1));
    for (int i = 0; i < 2; i++) { // the second time it is so already
      error *e = gpu_context_enable_peers(i, others, 2);
      if (can[0] && can[1])
        assert_good(e);
      else
        assert_error(e, ERROR_INTERNAL, "failed to enable peer access for some device pairs");
    }
    gpu_context_release(1);
  }
  gpu_context_release(0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_device_says_what_it_is_and_none_has_a_context),
      cmocka_unit_test(capabilities_are_compared_as_triton_does),
      cmocka_unit_test(a_context_lives_from_the_first_hold_to_the_last_release),
      cmocka_unit_test(a_device_that_is_not_there_is_named),
      cmocka_unit_test(a_device_that_nobody_holds_cannot_be_entered),
      cmocka_unit_test(
          calls_are_let_be_while_another_thread_captures_a_graph), // before this thread enters
      cmocka_unit_test(a_visitor_leaves_what_was_current),
      cmocka_unit_test(many_threads_hold_and_release),
      cmocka_unit_test(devices_that_reach_each_other_are_let_to),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
