// SPDX-License-Identifier: Apache-2.0
// The scheduler's workers that are claimed: a request goes to an idle worker past the queue, a busy
// worker takes ahead, a dismissed one leaves. Every wait ends by an event.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/thread.h"
#include "schedule_inside.h"

#include <sched.h>
#include <stdatomic.h>

static void refuse_nothing(void *context, queue_item *item, refusal reason)
{
  (void)context, (void)item;
  fail_msg("refused: %d", (int)reason);
}

static void enqueue(scheduler *s, queue_item *item)
{
  refusal reason;
  assert_true(scheduler_enqueue(s, item, &reason));
}

// A worker that may be claimed, and what it was given to do itself.
typedef struct claimable_worker {
  scheduler *scheduler;
  _Atomic size_t taken;
  _Atomic size_t handed_off;
  bool leaving; // the scheduler's
  pthread_t thread;
} claimable_worker;

static void *take_until_stopped(void *pointer)
{
  claimable_worker *w = pointer;
  queue_item *items[16];
  batch_close_reason reason;
  for (size_t count;
       (count = scheduler_take(w->scheduler, w, &w->leaving, items, 16, &reason)) > 0;)
    if (count == SCHEDULER_HANDED_OFF)
      atomic_fetch_add(&w->handed_off, 1);
    else
      atomic_fetch_add(&w->taken, count);
  return NULL;
}

// A scheduler with one worker that may be claimed.
static scheduler *start_claimable(const scheduler_config *config, claimable_worker *worker)
{
  *worker = (claimable_worker){0};
  assert_null(
      scheduler_new(config, clock_system(), NULL, refuse_nothing, NULL, &worker->scheduler));
  assert_null(thread_start(&worker->thread, "claimable", take_until_stopped, worker));
  return worker->scheduler;
}

static void *claim_when_idle(scheduler *s, queue_item *item, claimed_worker **claimed)
{
  void *owner;
  while ((owner = scheduler_claim(s, item, claimed)) == NULL)
    sched_yield(); // the worker is on its way to sleep
  return owner;
}

static void an_idle_worker_is_claimed_and_what_came_meanwhile_is_its_own(void **state)
{
  (void)state;
  scheduler_config config = {.dynamic_batching = true, .max_batch_size = 4};
  claimable_worker worker;
  scheduler *s = start_claimable(&config, &worker);
  for (int i = 0; i < 200; i++) {
    queue_item first = {.batch_size = 1}, second = {.batch_size = 1}, third = {.batch_size = 1};
    claimed_worker *claimed, *none;
    assert_ptr_equal(claim_when_idle(s, &first, &claimed), &worker);
    assert_int_equal(first.state, ITEM_OUTSIDE);
    assert_null(scheduler_claim(s, &second, &none)); // nobody else is idle
    enqueue(s, &third);
    assert_int_equal(worker.taken, i);
    assert_null(scheduler_claim(s, &second, &none)); // and something waits
    scheduler_release(s, claimed);
    while (atomic_load(&worker.taken) == (size_t)i)
      sched_yield();
  }
  assert_int_equal(scheduler_pending(s), 0);
  queue_item last = {.batch_size = 1};
  claimed_worker *claimed, *none;
  assert_ptr_equal(claim_when_idle(s, &last, &claimed), &worker);
  scheduler_stop(s); // the claimed worker hears of it when it is back
  queue_item late = {.batch_size = 1};
  assert_null(scheduler_claim(s, &late, &none));
  scheduler_release(s, claimed);
  pthread_join(worker.thread, NULL);
  assert_int_equal(worker.taken, 200);
  scheduler_free(s);
}

static void who_hands_off_wakes_the_worker_that_it_claimed(void **state)
{
  (void)state;
  scheduler_config config = {.dynamic_batching = true, .max_batch_size = 4};
  claimable_worker worker;
  scheduler *s = start_claimable(&config, &worker);
  for (int i = 0; i < 200; i++) {
    queue_item first = {.batch_size = 1}, second = {.batch_size = 1};
    claimed_worker *claimed;
    assert_ptr_equal(claim_when_idle(s, &first, &claimed), &worker);
    enqueue(s, &second); // nobody else can take it
    scheduler_hand_off(s, claimed);
    while (atomic_load(&worker.taken) == (size_t)i)
      sched_yield();
    assert_int_equal(atomic_load(&worker.handed_off), i + 1);
  }
  queue_item last = {.batch_size = 1};
  claimed_worker *claimed;
  claim_when_idle(s, &last, &claimed);
  scheduler_stop(s);
  scheduler_hand_off(s, claimed);
  pthread_join(worker.thread, NULL);
  assert_int_equal(atomic_load(&worker.handed_off), 201);
  scheduler_free(s);
}

static void a_dismissed_worker_leaves_what_waits_to_the_others(void **state)
{
  (void)state;
  scheduler_config config = {.max_batch_size = 4};
  claimable_worker first, second = {0};
  scheduler *s = start_claimable(&config, &first);
  queue_item item = {.batch_size = 1}, waiting = {.batch_size = 1};
  claimed_worker *claimed;
  claim_when_idle(s, &item, &claimed);
  scheduler_dismiss(s, &first.leaving);
  enqueue(s, &waiting);
  scheduler_release(s, claimed); // it hears of it when it is back
  pthread_join(first.thread, NULL);
  assert_int_equal(first.taken, 0);
  second.scheduler = s;
  assert_null(thread_start(&second.thread, "claimable", take_until_stopped, &second));
  while (atomic_load(&second.taken) == 0)
    sched_yield();
  claim_when_idle(s, &item, &claimed); // so it sleeps
  scheduler_release(s, claimed);
  scheduler_dismiss(s, &second.leaving);
  pthread_join(second.thread, NULL);
  assert_int_equal(second.taken, 1);
  scheduler_free(s);
}

static void a_busy_worker_takes_ahead_what_no_other_would_come_to_sooner(void **state)
{
  (void)state;
  scheduler_config config = {.max_batch_size = 4};
  scheduler *s;
  assert_null(scheduler_new(&config, clock_system(), NULL, refuse_nothing, NULL, &s));
  queue_item items[5] = {{.may_go_ahead = true}, {.may_go_ahead = true}, {.may_go_ahead = true}};
  assert_null(scheduler_take_ahead(s, 0));
  enqueue(s, &items[0]);
  enqueue(s, &items[1]);
  enqueue(s, &items[2]);
  assert_null(scheduler_take_ahead(s, 3)); // one for each of three others
  assert_ptr_equal(scheduler_take_ahead(s, 2), &items[0]);
  assert_int_equal(items[0].state, ITEM_OUTSIDE);
  assert_null(scheduler_take_ahead(s, 2));
  assert_ptr_equal(scheduler_take_ahead(s, 0), &items[1]);
  assert_int_equal(scheduler_pending(s), 1);
  assert_ptr_equal(scheduler_take_ahead(s, 0), &items[2]);
  enqueue(s, &items[3]); // may not
  items[4].may_go_ahead = true;
  enqueue(s, &items[4]);
  assert_null(scheduler_take_ahead(s, 0)); // nor may one pass it
  assert_true(scheduler_cancel(s, &items[3]));
  scheduler_stop(s);
  assert_ptr_equal(scheduler_take_ahead(s, 0), &items[4]); // what is queued is still served
  scheduler_free(s);
}

static void nothing_is_taken_ahead_where_batches_are_made(void **state)
{
  (void)state;
  scheduler_config config = {.dynamic_batching = true, .max_batch_size = 1};
  scheduler *s;
  assert_null(scheduler_new(&config, clock_system(), NULL, refuse_nothing, NULL, &s));
  queue_item item = {.may_go_ahead = true};
  enqueue(s, &item);
  assert_null(scheduler_take_ahead(s, 0));
  assert_true(scheduler_cancel(s, &item));
  scheduler_free(s);
}

static void nobody_is_claimed_where_the_policy_waits_for_more(void **state)
{
  (void)state;
  scheduler_config config = {
      .dynamic_batching = true, .max_batch_size = 4, .max_queue_delay_us = 1};
  claimable_worker worker;
  scheduler *s = start_claimable(&config, &worker);
  queue_item item = {.batch_size = 1};
  claimed_worker *claimed;
  for (int i = 0; i < 1000; i++)
    assert_null(scheduler_claim(s, &item, &claimed));
  scheduler_stop(s);
  pthread_join(worker.thread, NULL);
  scheduler_free(s);
}

// ---- in two steps ----

static void await_idle(scheduler *s, size_t count)
{
  for (size_t found = SIZE_MAX; found != count; sched_yield()) {
    found = 0;
    pthread_mutex_lock(&s->lock);
    for (list_node *n = list_first(&s->idle); n != NULL; n = list_next(&s->idle, n))
      found++;
    pthread_mutex_unlock(&s->lock);
  }
}

// One that asks elsewhere before it takes: told of a batch, it goes on when it is told to.
typedef struct asking_worker {
  scheduler *scheduler;
  bool offers;
  _Atomic bool told, may_take;
  size_t took;
  pthread_t thread;
} asking_worker;

static void *take_in_two_steps(void *pointer)
{
  asking_worker *w = pointer;
  queue_item *items[16];
  batch_close_reason reason;
  assert_int_equal(scheduler_await(w->scheduler, NULL, NULL, true), 1);
  if (w->offers)
    scheduler_offer(w->scheduler);
  atomic_store(&w->told, true);
  while (!atomic_load(&w->may_take))
    sched_yield();
  w->took = scheduler_take_awaited(w->scheduler, w->offers, NULL, items, 16, &reason);
  return NULL;
}

static void what_one_awaits_is_its_own_unless_it_is_offered(void **state)
{
  (void)state;
  for (int offers = 0; offers <= 1; offers++) {
    scheduler_config config = {.max_batch_size = 1};
    claimable_worker other;
    queue_item first = {.batch_size = 1}, second = {.batch_size = 1}, third = {.batch_size = 1};
    scheduler *s = start_claimable(&config, &other);
    asking_worker asking = {.scheduler = s, .offers = offers};
    await_idle(s, 1);
    assert_null(thread_start(&asking.thread, "asking", take_in_two_steps, &asking));
    await_idle(s, 2);
    enqueue(s, &first); // the one that came last is woken first
    while (!atomic_load(&asking.told))
      sched_yield();
    if (offers) {
      enqueue(s, &second);
      while (atomic_load(&other.taken) < 2)
        sched_yield();
      await_idle(s, 1);
      enqueue(s, &third);
      while (atomic_load(&other.taken) < 3)
        sched_yield();
    }
    assert_int_equal(scheduler_pending(s), !offers);
    atomic_store(&asking.may_take, true);
    pthread_join(asking.thread, NULL);
    assert_int_equal(asking.took, !offers);
    assert_int_equal(scheduler_await(s, NULL, NULL, false), 0);
    scheduler_stop(s);
    pthread_join(other.thread, NULL);
    scheduler_free(s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_idle_worker_is_claimed_and_what_came_meanwhile_is_its_own),
      cmocka_unit_test(a_dismissed_worker_leaves_what_waits_to_the_others),
      cmocka_unit_test(who_hands_off_wakes_the_worker_that_it_claimed),
      cmocka_unit_test(a_busy_worker_takes_ahead_what_no_other_would_come_to_sooner),
      cmocka_unit_test(nothing_is_taken_ahead_where_batches_are_made),
      cmocka_unit_test(nobody_is_claimed_where_the_policy_waits_for_more),
      cmocka_unit_test(what_one_awaits_is_its_own_unless_it_is_offered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
