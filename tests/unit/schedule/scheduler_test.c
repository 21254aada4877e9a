// SPDX-License-Identifier: Apache-2.0
// The scheduler around the policy: refusals, deadlines, stopping, wake-ups, and real threads that
// produce, execute, cancel and expire at once.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "schedule_inside.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static uint64_t test_now;

static uint64_t read_test_clock(void *context)
{
  (void)context;
  return test_now;
}

static const clock_source test_clock = {read_test_clock, NULL};

static queue_item *refused[16];
static refusal refused_why[16];
static size_t refused_count;

static void note_refusal(void *context, queue_item *item, refusal reason)
{
  (void)context;
  refused[refused_count] = item;
  refused_why[refused_count++] = reason;
}

static scheduler *make(const scheduler_config *config, timekeeper *keeper)
{
  scheduler *s;
  refused_count = 0;
  test_now = 1000000;
  assert_null(scheduler_new(config, test_clock, keeper, note_refusal, NULL, &s));
  return s;
}

static void enqueue(scheduler *s, queue_item *item)
{
  refusal reason;
  assert_true(scheduler_enqueue(s, item, &reason));
}

static size_t take_up_to_16(scheduler *s, queue_item **items)
{
  batch_close_reason reason;
  uint64_t until_ns;
  return take_now(s, items, 16, &reason, &until_ns);
}

static void the_default_scheduler_gives_one_request_at_a_time_in_order(void **state)
{
  (void)state;
  // Priorities, timeouts and caps belong to the dynamic batcher: none of them counts here.
  scheduler_config config = {
      .max_batch_size = 8,
      .queue = {.priority_levels = 2,
                .default_policy = {.max_queue_size = 1, .default_timeout_us = 1}}};
  scheduler *s = make(&config, NULL);
  queue_item items[3] = {{.batch_size = 1, .priority = 2},
                         {.batch_size = 1, .priority = 1},
                         {.batch_size = 1, .timeout_us = 1}};
  for (int i = 0; i < 3; i++)
    enqueue(s, &items[i]);
  test_now += 1000000;
  assert_int_equal(scheduler_pending(s), 3);
  queue_item *taken[16];
  for (int i = 0; i < 3; i++) {
    assert_int_equal(take_up_to_16(s, taken), 1);
    assert_ptr_equal(taken[0], &items[i]);
  }
  assert_int_equal(take_up_to_16(s, taken), 0);
  assert_int_equal(scheduler_pending(s), 0);
  scheduler_free(s);
}

static void a_full_level_refuses_and_others_do_not(void **state)
{
  (void)state;
  level_policy second = {2, {.max_queue_size = 1}};
  scheduler_config config = {.dynamic_batching = true,
                             .max_batch_size = 8,
                             .queue = {.priority_levels = 3,
                                       .default_priority_level = 2,
                                       .default_policy = {.max_queue_size = 2},
                                       .level_policies = &second,
                                       .level_policy_count = 1}};
  scheduler *s = make(&config, NULL);
  queue_item items[6] = {{.priority = 2}, {.priority = 0}, {.priority = 1},
                         {.priority = 1}, {.priority = 1}, {.priority = 3}};
  static const bool expected[6] = {true, false, true, true, false, true};
  for (int i = 0; i < 6; i++) {
    refusal reason = REFUSAL_STOPPED;
    assert_int_equal(scheduler_enqueue(s, &items[i], &reason), expected[i]);
    if (!expected[i])
      assert_int_equal(reason, REFUSAL_QUEUE_FULL);
  }
  queue_item *taken[16];
  assert_int_equal(take_up_to_16(s, taken), 4);
  assert_ptr_equal(taken[0], &items[2]);
  assert_ptr_equal(taken[1], &items[3]);
  assert_ptr_equal(taken[2], &items[0]);
  assert_ptr_equal(taken[3], &items[5]);
  refusal reason;
  assert_true(scheduler_enqueue(s, &items[1], &reason)); // there is room again
  assert_int_equal(take_up_to_16(s, taken), 1);
  scheduler_free(s);
}

static bool memory_is_short;
void *__real_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
  return memory_is_short ? NULL : __real_malloc(size);
}

static void a_level_without_memory_is_told_as_that_and_not_as_a_full_queue(void **state)
{
  (void)state;
  scheduler_config config = {.dynamic_batching = true,
                             .max_batch_size = 8,
                             .queue = {.priority_levels = 2, .default_priority_level = 1}};
  scheduler *s = make(&config, NULL);
  queue_item item = {.priority = 2};
  refusal reason = REFUSAL_STOPPED;
  memory_is_short = true;
  bool queued = scheduler_enqueue(s, &item, &reason);
  memory_is_short = false;
  assert_false(queued);
  assert_int_equal(reason, REFUSAL_NO_MEMORY);
  assert_int_equal(scheduler_pending(s), 0);
  queue_item *taken[16];
  enqueue(s, &item); // it is the caller's still
  assert_int_equal(take_up_to_16(s, taken), 1);
  scheduler_free(s);
}

static void a_deadline_fires_on_time_while_every_instance_is_busy(void **state)
{
  (void)state;
  timekeeper *k;
  assert_null(make_timekeeper(test_clock, &k));
  scheduler_config config = {
      .dynamic_batching = true,
      .max_batch_size = 8,
      .queue.default_policy = {.default_timeout_us = 100, .allow_timeout_override = true}};
  scheduler *s = make(&config, k);
  queue_item items[3] = {{.timeout_us = 0}, {.timeout_us = 30}, {.timeout_us = 500}};
  for (int i = 0; i < 3; i++)
    enqueue(s, &items[i]);
  assert_int_equal(fire_now(k), test_now + 30000);
  test_now += 30000;
  assert_int_equal(fire_now(k), test_now + 70000);
  assert_int_equal(refused_count, 1);
  assert_ptr_equal(refused[0], &items[1]);
  assert_int_equal(refused_why[0], REFUSAL_TIMEOUT);
  assert_false(scheduler_cancel(s, &items[1]));
  test_now += 70000;
  fire_now(k);
  assert_int_equal(refused_count, 3); // the longer timeout of the third does not count
  assert_int_equal(scheduler_pending(s), 0);
  scheduler_free(s);
  timekeeper_free(k);
}

static void an_expired_request_is_never_taken_even_without_a_timekeeper(void **state)
{
  (void)state;
  scheduler_config config = {.dynamic_batching = true,
                             .max_batch_size = 8,
                             .queue.default_policy = {.default_timeout_us = 100}};
  scheduler *s = make(&config, NULL);
  queue_item first = {0}, second = {0};
  enqueue(s, &first);
  test_now += 50000;
  enqueue(s, &second);
  test_now += 50000;
  queue_item *taken[16];
  assert_int_equal(take_up_to_16(s, taken), 1);
  assert_ptr_equal(taken[0], &second);
  assert_int_equal(refused_count, 1);
  assert_ptr_equal(refused[0], &first);
  scheduler_free(s);
}

static void the_timer_is_cancelled_with_the_scheduler(void **state)
{
  (void)state;
  timekeeper *k;
  assert_null(make_timekeeper(test_clock, &k));
  scheduler_config config = {.dynamic_batching = true,
                             .max_batch_size = 8,
                             .queue.default_policy = {.default_timeout_us = 100}};
  scheduler *s = make(&config, k);
  queue_item item = {0};
  enqueue(s, &item);
  assert_true(scheduler_cancel(s, &item));
  scheduler_free(s);
  assert_int_equal(fire_now(k), CLOCK_NEVER);
  timekeeper_free(k);
}

static void stopping_serves_what_is_queued_without_delay_and_refuses_the_rest(void **state)
{
  (void)state;
  scheduler_config config = {
      .dynamic_batching = true, .max_batch_size = 8, .max_queue_delay_us = 1000000};
  scheduler *s = make(&config, NULL);
  queue_item first = {0}, second = {0};
  enqueue(s, &first);
  queue_item *taken[16];
  assert_int_equal(take_up_to_16(s, taken), 0);
  scheduler_stop(s);
  refusal reason;
  assert_false(scheduler_enqueue(s, &second, &reason));
  assert_int_equal(reason, REFUSAL_STOPPED);
  batch_close_reason closed;
  assert_int_equal(scheduler_take(s, NULL, NULL, taken, 16, &closed), 1);
  assert_ptr_equal(taken[0], &first);
  assert_int_equal(scheduler_take(s, NULL, NULL, taken, 16, &closed), 0);
  scheduler_free(s);
}

static void abandoning_gives_every_queued_request_back(void **state)
{
  (void)state;
  scheduler_config config = {.dynamic_batching = true,
                             .max_batch_size = 8,
                             .queue = {.priority_levels = 2, .default_priority_level = 2}};
  scheduler *s = make(&config, NULL);
  queue_item items[3] = {{.priority = 2}, {.priority = 1}, {.priority = 2}};
  for (int i = 0; i < 3; i++)
    enqueue(s, &items[i]);
  scheduler_stop(s);
  scheduler_abandon(s);
  assert_int_equal(refused_count, 3);
  assert_ptr_equal(refused[0], &items[1]);
  assert_int_equal(refused_why[2], REFUSAL_STOPPED);
  queue_item *taken[16];
  batch_close_reason reason;
  assert_int_equal(scheduler_take(s, NULL, NULL, taken, 16, &reason), 0);
  scheduler_free(s);
}

static ordering_payload *sent[4];
static size_t sent_count;

static void note_sent(void *context, ordering_payload *payload)
{
  (void)context;
  sent[sent_count++] = payload;
}

static void preserved_order_is_the_order_in_which_requests_leave_the_queue(void **state)
{
  (void)state;
  ordering *order;
  assert_null(ordering_new(note_sent, NULL, &order));
  scheduler_config config = {.dynamic_batching = true, .max_batch_size = 1, .ordering = order};
  scheduler *s = make(&config, NULL);
  ordering_slot slots[3] = {0};
  ordering_payload payloads[3];
  queue_item items[3];
  queue_item *taken[16];
  for (int i = 0; i < 3; i++) {
    items[i] = (queue_item){.slot = &slots[i]};
    enqueue(s, &items[i]);
  }
  for (int i = 0; i < 3; i++)
    assert_int_equal(take_up_to_16(s, taken), 1);
  sent_count = 0;
  for (int i = 2; i >= 0; i--)
    ordering_deliver(order, &slots[i], &payloads[i], true);
  for (int i = 0; i < 3; i++)
    assert_ptr_equal(sent[i], &payloads[i]);
  scheduler_free(s);
  ordering_free(order);
}

// --- Threads. Every wait below ends by an event; a test that hangs is a lost wake-up.

typedef struct work_item {
  queue_item item;     // first
  _Atomic int returns; // how often it came back: executed, refused or cancelled
  _Atomic int executed;
  _Atomic bool handed_in; // from then on other threads may cancel it
  char key;
} work_item;

typedef struct stage {
  scheduler *scheduler;
  work_item *items;
  int item_count;
  uint32_t max_rows;
  _Atomic int next; // item to produce
  _Atomic int returned;
  _Atomic int oversized;
  _Atomic int mixed;
  _Atomic uint64_t latest_ns; // how late a batch was taken at worst, after its delay
  uint64_t delay_ns;
} stage;

static void come_back(stage *t, work_item *w)
{
  atomic_fetch_add(&w->returns, 1);
  atomic_fetch_add(&t->returned, 1);
}

static void stage_refuse(void *context, queue_item *item, refusal reason)
{
  (void)reason;
  come_back(context, (work_item *)item);
}

static void *produce(void *argument)
{
  stage *t = argument;
  unsigned seed = (unsigned)(uintptr_t)&seed;
  for (int i; (i = atomic_fetch_add(&t->next, 1)) < t->item_count;) {
    work_item *w = &t->items[i];
    w->key = rand_r(&seed) % 8 == 0 ? 'B' : 'A';
    w->item = (queue_item){.batch_size = (uint32_t)(rand_r(&seed) % 3),
                           .priority = (uint64_t)(rand_r(&seed) % 4),
                           .timeout_us = (uint64_t)(rand_r(&seed) % 300),
                           .batch_key = {&w->key, 1}};
    refusal reason;
    if (!scheduler_enqueue(t->scheduler, &w->item, &reason))
      come_back(t, w);
    atomic_store(&w->handed_in, true);
    if (rand_r(&seed) % 4 == 0 && scheduler_cancel(t->scheduler, &w->item))
      come_back(t, w);
    if (rand_r(&seed) % 64 == 0) { // sometimes another thread's
      int other = rand_r(&seed) % (i + 1);
      work_item *o = &t->items[other];
      if (atomic_load(&o->handed_in) && scheduler_cancel(t->scheduler, &o->item))
        come_back(t, o);
    }
  }
  return NULL;
}

static void *execute(void *argument)
{
  stage *t = argument;
  queue_item *items[16];
  batch_close_reason reason;
  for (size_t count; (count = scheduler_take(t->scheduler, NULL, NULL, items, 16, &reason)) > 0;) {
    uint64_t rows = 0;
    for (size_t i = 0; i < count; i++) {
      work_item *w = (work_item *)items[i];
      rows += queue_item_rows(items[i]);
      if (w->key != ((work_item *)items[0])->key)
        atomic_fetch_add(&t->mixed, 1);
      atomic_fetch_add(&w->executed, 1);
    }
    if (rows > t->max_rows && count > 1)
      atomic_fetch_add(&t->oversized, 1);
    for (size_t i = 0; i < count; i++)
      come_back(t, (work_item *)items[i]);
  }
  return NULL;
}

// stop_at: the scheduler is stopped when so many have come back, and not only when all have been
// handed in; 0 for the latter.
static void run_stopped_stage(const scheduler_config *config, int items, int producers, int workers,
                              int stop_at)
{
  timekeeper *k;
  assert_null(timekeeper_new(clock_system(), &k));
  stage t = {.item_count = items, .max_rows = config->max_batch_size};
  t.items = calloc((size_t)items, sizeof(*t.items));
  assert_null(scheduler_new(config, clock_system(), k, stage_refuse, &t, &t.scheduler));
  pthread_t threads[16];
  for (int i = 0; i < workers; i++)
    assert_null(thread_start(&threads[i], "execute", execute, &t));
  for (int i = 0; i < producers; i++)
    assert_null(thread_start(&threads[workers + i], "produce", produce, &t));
  while (atomic_load(&t.returned) < stop_at)
    sched_yield();
  if (stop_at > 0)
    scheduler_stop(t.scheduler);
  for (int i = 0; i < producers; i++)
    pthread_join(threads[workers + i], NULL);
  scheduler_stop(t.scheduler);
  for (int i = 0; i < workers; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(scheduler_pending(t.scheduler), 0);
  scheduler_free(t.scheduler); // waits for the timer's callback
  timekeeper_free(k);
  for (int i = 0; i < items; i++)
    assert_int_equal(atomic_load(&t.items[i].returns), 1);
  assert_int_equal(atomic_load(&t.returned), items);
  assert_int_equal(atomic_load(&t.oversized), 0);
  assert_int_equal(atomic_load(&t.mixed), 0);
  free(t.items);
}

static void run_stage(const scheduler_config *config, int items, int producers, int workers)
{
  run_stopped_stage(config, items, producers, workers, 0);
}

static void under_threads_every_request_comes_back_exactly_once(void **state)
{
  (void)state;
  scheduler_config config = {.dynamic_batching = true, .max_batch_size = 8};
  run_stage(&config, 20000, 3, 3);
  config.max_queue_delay_us = 50;
  run_stage(&config, 20000, 3, 3);
  const uint32_t preferred[] = {2, 4};
  config.preferred_batch_sizes = preferred;
  config.preferred_batch_size_count = 2;
  config.queue = (queue_config){.priority_levels = 3,
                                .default_priority_level = 2,
                                .default_policy = {.default_timeout_us = 200,
                                                   .allow_timeout_override = true,
                                                   .max_queue_size = 50}};
  run_stage(&config, 20000, 3, 3);
  config.queue.default_policy.action = TIMEOUT_DELAY;
  run_stage(&config, 20000, 3, 3);
  config = (scheduler_config){.max_batch_size = 0};
  run_stage(&config, 20000, 3, 3);
}

static void stopping_among_producers_brings_every_request_back_exactly_once(void **state)
{
  (void)state;
  const scheduler_config config = {.dynamic_batching = true, .max_batch_size = 8};
  for (int round = 0; round < 8; round++)
    run_stopped_stage(&config, 4000, 3, 3, 1 + 250 * round);
}

// One client that waits for each answer before it asks again: every request needs its own wake-up,
// and a lost one hangs.
static void *serve_until_stopped(void *argument)
{
  stage *t = argument;
  queue_item *items[16];
  batch_close_reason reason;
  for (size_t count; (count = scheduler_take(t->scheduler, NULL, NULL, items, 16, &reason)) > 0;) {
    for (size_t i = 0; i < count; i++) {
      uint64_t age_ns = clock_monotonic_ns() - items[i]->enqueued_ns;
      if (age_ns < t->delay_ns && reason == BATCH_CLOSED_DELAY)
        atomic_fetch_add(&t->mixed, 1);
      if (age_ns > atomic_load(&t->latest_ns))
        atomic_store(&t->latest_ns, age_ns);
      come_back(t, (work_item *)items[i]);
    }
  }
  return NULL;
}

static void wait_for_return(const work_item *w)
{
  while (atomic_load(&w->returns) == 0)
    sched_yield();
  assert_int_equal(atomic_load(&w->returns), 1);
}

static void one_request_at_a_time_is_always_noticed(void **state)
{
  (void)state;
  static const uint64_t delays_us[] = {0, 200};
  for (size_t d = 0; d < 2; d++) {
    scheduler_config config = {
        .dynamic_batching = true, .max_batch_size = 8, .max_queue_delay_us = delays_us[d]};
    stage t = {.delay_ns = delays_us[d] * 1000};
    assert_null(scheduler_new(&config, clock_system(), NULL, stage_refuse, &t, &t.scheduler));
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
      assert_null(thread_start(&threads[i], "serve", serve_until_stopped, &t));
    for (int i = 0; i < 1000; i++) {
      work_item w = {0};
      refusal reason;
      assert_true(scheduler_enqueue(t.scheduler, &w.item, &reason));
      wait_for_return(&w);
    }
    scheduler_stop(t.scheduler);
    for (int i = 0; i < 3; i++)
      pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&t.mixed), 0);
    if (delays_us[d] != 0)
      assert_int_equal(scheduler_closed_batches(t.scheduler, BATCH_CLOSED_DELAY), 1000);
    scheduler_free(t.scheduler);
  }
}

// Two clients that each wait: the second request completes a preferred size and must end the first
// one's wait long before the delay does.
static void a_batch_that_becomes_complete_ends_the_wait(void **state)
{
  (void)state;
  scheduler_config config = {
      .dynamic_batching = true, .max_batch_size = 2, .max_queue_delay_us = 600000000};
  stage t = {0};
  assert_null(scheduler_new(&config, clock_system(), NULL, stage_refuse, &t, &t.scheduler));
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    assert_null(thread_start(&threads[i], "serve", serve_until_stopped, &t));
  for (int i = 0; i < 500; i++) {
    work_item first = {0}, second = {0};
    refusal reason;
    assert_true(scheduler_enqueue(t.scheduler, &first.item, &reason));
    assert_true(scheduler_enqueue(t.scheduler, &second.item, &reason));
    wait_for_return(&first);
    wait_for_return(&second);
  }
  // Another shape ends the wait of what came before it, and cancelling the rest leaves nothing.
  for (int i = 0; i < 200; i++) {
    work_item first = {0}, second = {0};
    first.item.batch_key = SLICE("A");
    second.item.batch_key = SLICE("B");
    refusal reason;
    assert_true(scheduler_enqueue(t.scheduler, &first.item, &reason));
    assert_true(scheduler_enqueue(t.scheduler, &second.item, &reason));
    wait_for_return(&first);
    assert_true(scheduler_cancel(t.scheduler, &second.item));
  }
  assert_int_equal(scheduler_closed_batches(t.scheduler, BATCH_CLOSED_FULL), 500);
  assert_int_equal(scheduler_closed_batches(t.scheduler, BATCH_CLOSED_SHAPE), 200);
  scheduler_stop(t.scheduler);
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  scheduler_free(t.scheduler);
}

// ---- waiting for clients that come back ----

typedef struct await_call {
  scheduler *s;
  uint64_t rows;
  uint64_t until_ns;
  bool returned;
  _Atomic bool over;
} await_call;

static void *await_return(void *argument)
{
  await_call *call = argument;
  call->returned = scheduler_linger(call->s, call->rows, call->until_ns);
  atomic_store(&call->over, true);
  return NULL;
}

static void who_awaits_returning_rows_wakes_when_they_are_all_there(void **state)
{
  (void)state;
  scheduler *s = make(&(scheduler_config){.dynamic_batching = true, .max_batch_size = 4}, NULL);
  queue_item items[4] = {
      {.batch_size = 1}, {.batch_size = 1}, {.batch_size = 2}, {.batch_size = 1}};
  queue_item *taken[16];
  enqueue(s, &items[0]);
  await_call call = {.s = s, .rows = 8, .until_ns = CLOCK_NEVER};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, await_return, &call), 0);
  enqueue(s, &items[1]);
  assert_false(atomic_load(&call.over)); // it cannot be: a row short, and no end of the time
  enqueue(s, &items[2]);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(call.returned);
  assert_int_equal(take_up_to_16(s, taken), 3);
  scheduler_free(s);
}

static void a_wait_for_rows_that_do_not_return_ends_in_time(void **state)
{
  (void)state;
  scheduler *s = make(&(scheduler_config){.dynamic_batching = true, .max_batch_size = 8}, NULL);
  queue_item item = {.batch_size = 1};
  queue_item *taken[16];
  enqueue(s, &item);
  assert_false(scheduler_linger(s, 4, clock_monotonic_ns() + 1000000));
  assert_false(scheduler_linger(s, 1, clock_monotonic_ns() + 1000000)); // nor half of one
  assert_int_equal(take_up_to_16(s, taken), 1);
  scheduler_free(s);
}

static void rows_are_not_awaited_where_the_batch_would_not_grow(void **state)
{
  (void)state;
  const scheduler_config configs[] = {
      {.max_batch_size = 8},                                                    // no batcher
      {.dynamic_batching = true, .max_batch_size = 8, .max_queue_delay_us = 1}, // its own delay
      {.dynamic_batching = true, .max_batch_size = 1},                          // full already
  };
  for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
    scheduler *s = make(&configs[i], NULL);
    queue_item item = {.batch_size = 1};
    queue_item *taken[16];
    enqueue(s, &item);
    assert_true(scheduler_linger(s, 1, CLOCK_NEVER)); // returns, so it did not wait
    test_now += 1000000;
    assert_int_equal(take_up_to_16(s, taken), 1);
    scheduler_free(s);
  }
  scheduler *s = make(&(scheduler_config){.dynamic_batching = true, .max_batch_size = 8}, NULL);
  scheduler_stop(s);
  assert_true(scheduler_linger(s, 1, CLOCK_NEVER));
  scheduler_free(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_default_scheduler_gives_one_request_at_a_time_in_order),
      cmocka_unit_test(a_full_level_refuses_and_others_do_not),
      cmocka_unit_test(a_level_without_memory_is_told_as_that_and_not_as_a_full_queue),
      cmocka_unit_test(a_deadline_fires_on_time_while_every_instance_is_busy),
      cmocka_unit_test(an_expired_request_is_never_taken_even_without_a_timekeeper),
      cmocka_unit_test(the_timer_is_cancelled_with_the_scheduler),
      cmocka_unit_test(stopping_serves_what_is_queued_without_delay_and_refuses_the_rest),
      cmocka_unit_test(abandoning_gives_every_queued_request_back),
      cmocka_unit_test(preserved_order_is_the_order_in_which_requests_leave_the_queue),
      cmocka_unit_test(under_threads_every_request_comes_back_exactly_once),
      cmocka_unit_test(stopping_among_producers_brings_every_request_back_exactly_once),
      cmocka_unit_test(one_request_at_a_time_is_always_noticed),
      cmocka_unit_test(a_batch_that_becomes_complete_ends_the_wait),
      cmocka_unit_test(who_awaits_returning_rows_wakes_when_they_are_all_there),
      cmocka_unit_test(a_wait_for_rows_that_do_not_return_ends_in_time),
      cmocka_unit_test(rows_are_not_awaited_where_the_batch_would_not_grow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
