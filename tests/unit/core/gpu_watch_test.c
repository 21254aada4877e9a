// SPDX-License-Identifier: Apache-2.0
// The thread that looks after GPUs (core/gpu_watch.h, core/gpu_ticker.h), on played ones.
#include "gpu_testing.h"

#include "core/gpu_ticker.h"
#include "core/gpu_watch.h"
#include "gpu/health.h"

#include <pthread.h>
#include <stdatomic.h>

#define TICK_NS UINT64_C(1000000)

enum { // ordinals
  FAILS,
  IS_UNUSED,
};

typedef struct seen {
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t changed;
  size_t ticks, looks, failures, refusals, ended; // ended: threads that ticked or looked
  int failed;                                     // the device
  char text[GPU_FAULT_BYTES];
  bool hangs;  // a tick, until this is false again
  size_t last; // the tick that is the last by its own will; 0: none
  atomic_size_t users[2];
} seen;

#define SEEN                                                                                       \
  {                                                                                                \
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER                         \
  }

static void await(seen *s, const size_t *count, size_t least)
{
  pthread_mutex_lock(&s->lock);
  while (*count < least)
    pthread_cond_wait(&s->changed, &s->lock);
  pthread_mutex_unlock(&s->lock);
}

static size_t read_count(seen *s, const size_t *count)
{
  pthread_mutex_lock(&s->lock);
  size_t value = *count;
  pthread_mutex_unlock(&s->lock);
  return value;
}

static void set_hangs(seen *s, bool hangs)
{
  pthread_mutex_lock(&s->lock);
  s->hangs = hangs;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static pthread_key_t whose; // whom a thread has told of what it does

static void end_thread(void *context)
{
  seen *s = context;
  pthread_mutex_lock(&s->lock);
  s->ended++;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static int set_up(void **state)
{
  (void)state;
  return pthread_key_create(&whose, end_thread);
}

// ---- the ticker ----

// What a tick uses is static: a machine that stalls for two seconds has the thread left behind.

static bool tick(void *context)
{
  seen *s = context;
  pthread_setspecific(whose, s);
  pthread_mutex_lock(&s->lock);
  bool again = ++s->ticks != s->last;
  pthread_cond_broadcast(&s->changed);
  while (s->hangs)
    pthread_cond_wait(&s->changed, &s->lock);
  pthread_mutex_unlock(&s->lock);
  return again;
}

static void it_ticks_until_it_is_ended(void **state)
{
  (void)state;
  static seen s = SEEN;
  gpu_ticker *ticker;
  assert_good(gpu_ticker_new("ticks", TICK_NS, tick, &s, &ticker));
  await(&s, &s.ticks, 3);
  gpu_ticker_free(ticker);
  await(&s, &s.ended, 1);
  assert_true(gpu_ticker_free(NULL));
}

static void an_end_does_not_wait_for_the_interval(void **state)
{
  (void)state;
  static seen s = SEEN;
  gpu_ticker *ticker;
  assert_good(gpu_ticker_new("ticks", UINT64_C(3600000000000), tick, &s, &ticker));
  await(&s, &s.ticks, 1);
  gpu_ticker_free(ticker);
  await(&s, &s.ended, 1);
  assert_int_equal(s.ticks, 1);
}

static void a_tick_may_be_the_last_one(void **state)
{
  (void)state;
  static seen s = SEEN;
  gpu_ticker *ticker;
  s.last = 2;
  assert_good(gpu_ticker_new("ticks", TICK_NS, tick, &s, &ticker));
  await(&s, &s.ticks, 2);
  gpu_ticker_free(ticker);
  await(&s, &s.ended, 1);
  assert_int_equal(s.ticks, 2);
}

static void a_tick_that_hangs_is_left_behind(void **state)
{
  (void)state;
  static seen s = SEEN;
  static gpu_ticker *ticker;
  set_hangs(&s, true);
  assert_good(gpu_ticker_new("ticks", TICK_NS, tick, &s, &ticker));
  await(&s, &s.ticks, 1);
  assert_false(gpu_ticker_free(ticker));
  set_hangs(&s, false);
  await(&s, &s.ended, 1); // when it comes back
}

// ---- the watch ----

static size_t count_users(void *context, int device)
{
  seen *s = context;
  pthread_setspecific(whose, s);
  pthread_mutex_lock(&s->lock);
  s->looks++;
  pthread_mutex_unlock(&s->lock);
  return s->users[device];
}

static void failed(void *context, const gpu_device *device, const char *text)
{
  seen *s = context;
  pthread_mutex_lock(&s->lock);
  s->failures++;
  s->failed = device->ordinal;
  snprintf(s->text, sizeof(s->text), "%s", text);
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static void refuse(void *context)
{
  seen *s = context;
  pthread_mutex_lock(&s->lock);
  s->refusals++;
  pthread_cond_broadcast(&s->changed);
  pthread_mutex_unlock(&s->lock);
}

static gpu_watch *new_watch(seen *s)
{
  gpu_watch *watch;
  assert_good(gpu_watch_new(
      find_devices(),
      (gpu_watch_calls){.context = s, .users = count_users, .failed = failed, .refuse = refuse},
      &watch));
  return watch;
}

static void a_fault_is_told_once_and_refused_with_each_look(void **state)
{
  (void)state;
  static seen s = SEEN;
  gpu_ticker *ticker;
  gpu_watch *watch = new_watch(&s);
  s.users[FAILS] = 1;
  assert_good(gpu_watch_begin(watch));
  assert_good(gpu_watch_begin(watch));
  gpu_health_tell(FAILS, CUDA_ERROR_ILLEGAL_ADDRESS);
  await(&s, &s.refusals, 3);
  assert_int_equal(read_count(&s, &s.failures), 1);
  assert_int_equal(s.failed, FAILS);
  assert_string_equal(s.text, "GPU 0: an illegal memory access was encountered "
                              "(CUDA_ERROR_ILLEGAL_ADDRESS)");
  gpu_watch_stop(watch);
  await(&s, &s.ended, 1);
  size_t looks = s.looks;
  assert_good(gpu_watch_begin(watch)); // it is over
  assert_good(gpu_ticker_new("ticks", TICK_NS, tick, &s, &ticker));
  await(&s, &s.ticks, 20); // a thread that began before would have looked
  gpu_ticker_free(ticker);
  await(&s, &s.ended, 2);
  assert_int_equal(read_count(&s, &s.looks), looks);
  gpu_watch_free(watch);
}

static void a_device_is_none_of_its_business_until_something_is_there(void **state)
{
  (void)state;
  static seen s = SEEN;
  gpu_watch *watch = new_watch(&s);
  s.users[FAILS] = 1;
  gpu_health_tell(FAILS, CUDA_ERROR_ILLEGAL_ADDRESS);
  gpu_health_tell_lost(IS_UNUSED, "double-bit ECC error", "Xid 48");
  assert_good(gpu_watch_begin(watch));
  await(&s, &s.refusals, 2);
  assert_int_equal(read_count(&s, &s.failures), 1);
  assert_int_equal(s.failed, FAILS);
  assert_good(gpu_watch_begin_apart(watch, IS_UNUSED)); // of another process
  await(&s, &s.failures, 2);
  assert_int_equal(s.failed, IS_UNUSED);
  gpu_watch_end_apart(watch, IS_UNUSED);
  gpu_watch_free(watch);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(it_ticks_until_it_is_ended),
      cmocka_unit_test(an_end_does_not_wait_for_the_interval),
      cmocka_unit_test(a_tick_may_be_the_last_one),
      cmocka_unit_test(a_tick_that_hangs_is_left_behind),
      cmocka_unit_test(a_fault_is_told_once_and_refused_with_each_look),
      cmocka_unit_test(a_device_is_none_of_its_business_until_something_is_there),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
