// SPDX-License-Identifier: Apache-2.0
// The server's GPUs (core/gpus.h) on two played ones: users, pools, what falls back to what,
// limits, and that nothing is left.
#include "gpu_played.h"

#include "base/log.h"
#include "core/gpus.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
  PINNED_BYTES = 1 << 20,
  POOL_BYTES = 1 << 20,
  ROUNDS = 100,
};

typedef struct fixture {
  server_options options;
  gpus *gpus;
} fixture;

static void make(fixture *f, const char *pool_of_0, uint64_t pinned_bytes)
{
  assert_good(server_options_init(&f->options));
  f->options.pinned_memory_pool_bytes = pinned_bytes;
  assert_good(setting_list_put(&f->options.gpu_sizes, GPU_POOL_SIZE, "0", pool_of_0));
  assert_good(gpus_new(&f->options, &f->gpus));
  assert_int_equal(gpus_supported(f->gpus).count, 2);
}

static void end(fixture *f)
{
  gpus_free(f->gpus);
  server_options_fini(&f->options);
  for (int device = 0; device < 2; device++)
    assert_false(gpu_context_is_active(device));
}

static gpu_pool_counts count(const fixture *f, gpu_memory_kind kind, int device)
{
  gpu_pool_counts counts;
  gpus_count(f->gpus, kind, device, &counts);
  return counts;
}

static void a_device_that_nobody_uses_costs_nothing(void **state)
{
  (void)state;
  fixture f;
  void *memory;
  make(&f, "1048576", PINNED_BYTES);
  assert_false(gpu_context_is_active(0));
  assert_error(gpus_take(f.gpus, ON(0), 64, &memory), ERROR_UNAVAILABLE,
               "CudaMemoryManager has no preallocated CUDA memory");
  assert_error(gpus_take(f.gpus, PINNED(0), 64, &memory), ERROR_INTERNAL,
               "failed to allocate pinned system memory: no pinned memory pool");
  assert_false(gpu_context_is_active(0));
  end(&f);
}

static void the_first_user_brings_pools_and_the_last_takes_them(void **state)
{
  (void)state;
  fixture f;
  make(&f, "1048576", PINNED_BYTES);
  assert_good(gpus_use(f.gpus, 0));
  assert_good(gpus_use(f.gpus, 0));
  assert_int_equal(gpus_users(f.gpus, 0), 2);
  assert_int_equal(count(&f, GPU_MEMORY_DEVICE, 0).total_bytes, POOL_BYTES);
  assert_int_equal(count(&f, GPU_MEMORY_DEVICE, 1).total_bytes, 0);
  assert_int_equal(count(&f, GPU_MEMORY_PINNED, -1).total_bytes, PINNED_BYTES);
  assert_false(gpu_context_is_active(1));
  gpus_leave(f.gpus, 0);
  assert_int_equal(count(&f, GPU_MEMORY_DEVICE, -1).total_bytes, POOL_BYTES);
  gpus_leave(f.gpus, 0);
  assert_int_equal(count(&f, GPU_MEMORY_DEVICE, -1).total_bytes, 0);
  assert_int_equal(count(&f, GPU_MEMORY_PINNED, -1).total_bytes, 0);
  assert_false(gpu_context_is_active(0));
  assert_error(gpus_use(f.gpus, 2), ERROR_INTERNAL, "GPU 2 of 2");
  end(&f);
}

static void what_is_still_taken_keeps_its_pool(void **state)
{
  (void)state;
  fixture f;
  void *memory, *more;
  make(&f, "1048576", PINNED_BYTES);
  assert_good(gpus_use(f.gpus, 0));
  assert_good(gpus_take(f.gpus, ON(0), 1000, &memory));
  assert_true(gpus_owns(f.gpus, ON(0), memory));
  assert_false(gpus_owns(f.gpus, ON(0), &memory));
  assert_false(gpus_owns(f.gpus, ON(1), memory));
  gpus_leave(f.gpus, 0);
  assert_int_equal(count(&f, GPU_MEMORY_DEVICE, 0).total_bytes, POOL_BYTES);
  assert_good(gpus_use(f.gpus, 0)); // it is still there
  assert_good(gpus_take(f.gpus, ON(0), 1000, &more));
  assert_ptr_not_equal(more, memory);
  gpus_give_back(f.gpus, ON(0), more);
  gpus_give_back(f.gpus, ON(0), memory);
  gpus_leave(f.gpus, 0);
  assert_int_equal(count(&f, GPU_MEMORY_DEVICE, 0).total_bytes, 0);
  end(&f);
}

static void a_full_pool_says_how_much_is_in_use(void **state)
{
  (void)state;
  fixture f;
  void *memory, *more;
  make(&f, "1048576", PINNED_BYTES);
  assert_good(gpus_use(f.gpus, 0));
  assert_good(gpus_take(f.gpus, ON(0), POOL_BYTES / 2, &memory));
  assert_error(gpus_take(f.gpus, ON(0), POOL_BYTES, &more), ERROR_INTERNAL,
               "Failed to allocate CUDA memory with byte size 1048576 on GPU 0: "
               "CNMEM_STATUS_OUT_OF_MEMORY: 524288 of 1048576 bytes are in use "
               "(--cuda-memory-pool-byte-size)");
  assert_null(more);
  gpus_give_back(f.gpus, ON(0), memory);
  assert_error(gpus_take(f.gpus, PINNED(0), 2 * PINNED_BYTES, &more), ERROR_INTERNAL,
               "failed to allocate pinned system memory");
  assert_error(gpus_take(f.gpus, ON(7), 1, &more), ERROR_INTERNAL, "GPU 7 of 2");
  assert_error(gpus_take(f.gpus, ON(-1), 1, &more), ERROR_INTERNAL, "GPU -1 of 2");
  gpus_leave(f.gpus, 0);
  end(&f);
}

// Each takes more than half of a pool: device, pinned memory, heap.
static void what_has_no_room_falls_back(void **state)
{
  (void)state;
  static const gpu_memory_kind expected[] = {GPU_MEMORY_DEVICE, GPU_MEMORY_PINNED, GPU_MEMORY_HOST};
  fixture f;
  void *memory[3];
  gpu_place places[3];
  make(&f, "1048576", PINNED_BYTES);
  assert_good(gpus_use(f.gpus, 0));
  for (int i = 0; i < 3; i++) {
    places[i] = ON(0);
    assert_good(gpus_take_any(f.gpus, &places[i], 600000, &memory[i]));
    assert_int_equal(places[i].kind, expected[i]);
  }
  assert_int_equal(count(&f, GPU_MEMORY_DEVICE, 0).misses, 2);
  for (int i = 0; i < 3; i++)
    gpus_give_back(f.gpus, places[i], memory[i]);
  gpus_leave(f.gpus, 0);
  gpu_place place = ON(1); // not used: there is nothing to fall back from
  assert_good(gpus_take_any(f.gpus, &place, 8, &memory[0]));
  assert_int_equal(place.kind, GPU_MEMORY_HOST);
  gpus_give_back(f.gpus, place, memory[0]);
  end(&f);
}

static void a_size_of_0_is_no_pool(void **state)
{
  (void)state;
  fixture f;
  void *memory;
  make(&f, "0", 0);
  assert_good(gpus_use(f.gpus, 0));
  assert_error(gpus_take(f.gpus, ON(0), 8, &memory), ERROR_UNAVAILABLE, "no pool on GPU 0");
  assert_error(gpus_take(f.gpus, PINNED(0), 8, &memory), ERROR_INTERNAL, "no pinned memory pool");
  assert_good(gpus_use(f.gpus, 1)); // whose size nobody has set
  assert_int_equal(count(&f, GPU_MEMORY_DEVICE, 1).total_bytes, 64 << 20);
  gpus_leave(f.gpus, 1);
  gpus_leave(f.gpus, 0);
  end(&f);
}

static void a_limit_is_of_the_memory_in_use(void **state)
{
  (void)state;
  fixture f;
  assert_good(server_options_init(&f.options));
  assert_good(
      setting_list_add(&f.options.backend_settings, "", "model-load-gpu-limit-device-0", "0.01"));
  assert_good(gpus_new(&f.options, &f.gpus));
  assert_good(gpus_check_limit(f.gpus, 0, "m_0"));
  assert_good(gpus_use(f.gpus, 0)); // 64 MiB of 1 GiB
  assert_error(gpus_check_limit(f.gpus, 0, "m_0"), ERROR_UNAVAILABLE,
               "can not create model 'm_0': memory limit set for GPU 0 has exceeded, model loading "
               "is rejected.");
  assert_good(gpus_check_limit(f.gpus, 1, "m_0"));
  gpus_leave(f.gpus, 0);
  end(&f);
}

static void without_gpus_the_words_are_those_of_a_server_without(void **state)
{
  (void)state;
  void *memory;
  assert_error(gpus_take(NULL, ON(0), 8, &memory), ERROR_UNSUPPORTED,
               "GPU memory allocation not supported");
  assert_error(gpus_take(NULL, PINNED(0), 8, &memory), ERROR_UNSUPPORTED,
               "Pinned memory allocation not supported");
  assert_good(gpus_take(NULL, HOST, 0, &memory));
  assert_non_null(memory);
  gpus_give_back(NULL, HOST, memory);
  assert_int_equal(gpus_supported(NULL).count, 0);
}

// ---- threads: one takes and gives back as long as the others come and go ----

typedef struct taker {
  fixture *f;
  _Atomic bool over;
  unsigned taken;
} taker;

static void *take(void *argument)
{
  taker *t = argument;
  for (void *memory; !atomic_load(&t->over);) {
    error *e = gpus_take(t->f->gpus, PINNED(0), 64, &memory);
    if (e == NULL) {
      assert_true(gpus_owns(t->f->gpus, PINNED(0), memory));
      gpus_give_back(t->f->gpus, PINNED(0), memory);
      t->taken++;
    }
    error_free(e);
    count(t->f, GPU_MEMORY_DEVICE, -1);
  }
  return NULL;
}

static void *come_and_go(void *argument)
{
  fixture *f = argument;
  for (int i = 0; i < ROUNDS; i++) {
    assert_good(gpus_use(f->gpus, i % 2));
    gpus_leave(f->gpus, i % 2);
  }
  return NULL;
}

static void a_pool_goes_when_nobody_is_inside(void **state)
{
  (void)state;
  fixture f;
  pthread_t threads[3];
  taker t = {.f = &f};
  make(&f, "65536", 65536);
  assert_int_equal(pthread_create(&threads[0], NULL, take, &t), 0);
  for (int i = 1; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, come_and_go, &f), 0);
  for (int i = 1; i < 3; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  atomic_store(&t.over, true);
  assert_int_equal(pthread_join(threads[0], NULL), 0);
  assert_good(gpus_use(f.gpus, 0)); // what was kept goes with the last user
  gpus_leave(f.gpus, 0);
  assert_int_equal(count(&f, GPU_MEMORY_PINNED, -1).total_bytes, 0);
  end(&f);
}

static void *come(void *argument)
{
  const fixture *f = argument;
  assert_good(gpus_use(f->gpus, 0));
  return NULL;
}

static void a_driver_that_hangs_holds_up_its_own_device_alone(void **state)
{
  static const char *const functions[] = {"cuMemAlloc_v2", "cuMemHostAlloc"};
  (void)state;
  fixture f;
  char fault[100];
  make(&f, "65536", PINNED_BYTES);
  for (int i = 0; i < 2; i++) {
    pthread_t thread;
    uint64_t before = counted(functions[i]);
    bool pinned_hangs = i == 1;
    snprintf(fault, sizeof(fault), "{\"function\": \"%s\", \"hang\": true, \"device\": 0}",
             functions[i]);
    play(fault);
    assert_int_equal(pthread_create(&thread, NULL, come, &f), 0);
    await_call(functions[i], before);
    assert_good(gpus_use(f.gpus, 1));
    assert_int_equal(count(&f, GPU_MEMORY_DEVICE, 1).total_bytes, 64 << 20);
    assert_int_equal(count(&f, GPU_MEMORY_PINNED, -1).total_bytes, pinned_hangs ? 0 : PINNED_BYTES);
    gpus_leave(f.gpus, 1);
    assert_int_equal(gpus_users(f.gpus, 0), 0);
    play("");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(count(&f, GPU_MEMORY_PINNED, -1).total_bytes, PINNED_BYTES);
    gpus_leave(f.gpus, 0);
    assert_int_equal(count(&f, GPU_MEMORY_PINNED, -1).total_bytes, 0);
  }
  end(&f);
}

static int set_up(void **state)
{
  (void)state;
  play_devices(2);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  play_no_more();
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_gpus_the_words_are_those_of_a_server_without),
      cmocka_unit_test(a_device_that_nobody_uses_costs_nothing),
      cmocka_unit_test(the_first_user_brings_pools_and_the_last_takes_them),
      cmocka_unit_test(what_is_still_taken_keeps_its_pool),
      cmocka_unit_test(a_full_pool_says_how_much_is_in_use),
      cmocka_unit_test(what_has_no_room_falls_back),
      cmocka_unit_test(a_size_of_0_is_no_pool),
      cmocka_unit_test(a_limit_is_of_the_memory_in_use),
      cmocka_unit_test(a_pool_goes_when_nobody_is_inside),
      cmocka_unit_test(a_driver_that_hangs_holds_up_its_own_device_alone),
  };
  log_enable(LOG_LEVEL_INFO, false);
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
