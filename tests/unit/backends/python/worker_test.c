// SPDX-License-Identifier: Apache-2.0
// A worker's states, its slot, and readiness as far as nobody is asked (process/worker.c,
// worker_rpc.c). No process is started: the states are set as worker.c does.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "process/worker_end.h"
#include "process/worker_parts.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static bool is_waiting; // for a model's reply

static bool waits(const void *user)
{
  (void)user;
  return is_waiting;
}

static const worker_events EVENTS = {.waits = waits};
static const worker_settings SETTINGS = {.model = "played", .version = 3, .timeout_s = 60};

static worker *made;

static void set_state(worker_state state)
{
  pthread_mutex_lock(&made->lock);
  worker_set_state(made, state);
  pthread_mutex_unlock(&made->lock);
}

static int begin(void **state)
{
  (void)state;
  is_waiting = false;
  made = worker_new(&SETTINGS, "played_0", &EVENTS, NULL);
  assert_non_null(made);
  TRITONSERVER_Error *error = worker_link_new(1 << 20, -1, &made->link);
  assert_null(error);
  made->number = 1;
  return 0;
}

static int end(void **state)
{
  (void)state;
  worker_link_unref(made->link);
  made->link = NULL;
  worker_free(made);
  return 0;
}

static void assert_error(TRITONSERVER_Error *error, const char *text)
{
  assert_non_null(error);
  assert_string_equal(TRITONSERVER_ErrorMessage(error), text);
  TRITONSERVER_ErrorDelete(error);
}

static void only_one_has_the_slot(void **state)
{
  (void)state;
  worker_link *link, *other;
  assert_false(worker_try_acquire_slot(made, &link)); // it is starting
  set_state(WORKER_READY);
  assert_true(worker_try_acquire_slot(made, &link));
  assert_ptr_equal(link, made->link);
  assert_false(worker_try_acquire_slot(made, &other));
  worker_release_slot(made, link);
  assert_null(worker_acquire_slot(made, &link));
  worker_release_slot(made, link);
}

static void the_slot_is_shared_behind_the_same_worker_only(void **state)
{
  (void)state;
  worker_link *link;
  set_state(WORKER_READY);
  assert_false(worker_share_slot(made, made->link)); // nobody has it
  assert_true(worker_try_acquire_slot(made, &link));
  assert_false(worker_may_share_slot(made, NULL));
  assert_true(worker_may_share_slot(made, link));
  assert_true(worker_share_slot(made, link));
  worker_release_slot(made, link);
  assert_false(worker_try_acquire_slot(made, &link)); // the other one has it still
  made->waiting = 1;
  assert_false(worker_may_share_slot(made, link)); // somebody waits
  made->waiting = 0;
  worker_record_call(made, false);
  assert_true(worker_may_share_slot(made, link));
  worker_record_call(made, true);
  assert_false(worker_may_share_slot(made, link)); // it calls other models
  worker_release_slot(made, link);
}

// ---- who waits for the slot, on a thread of its own

static atomic_bool has_slot;

static void *wait_for_slot(void *argument)
{
  worker_link *link;
  (void)argument;
  TRITONSERVER_Error *error = worker_acquire_slot(made, &link);
  has_slot = error == NULL;
  if (error == NULL)
    worker_release_slot(made, link);
  return error;
}

static void await_waiting(void)
{
  unsigned waiting = 0;
  while (waiting == 0) {
    pthread_mutex_lock(&made->lock);
    waiting = made->waiting;
    pthread_mutex_unlock(&made->lock);
    sched_yield();
  }
}

static void who_waits_has_the_slot_before_who_comes_later(void **state)
{
  (void)state;
  worker_link *link, *other;
  pthread_t thread;
  has_slot = false;
  set_state(WORKER_READY);
  assert_true(worker_try_acquire_slot(made, &link));
  assert_true(worker_share_slot(made, link));
  assert_int_equal(pthread_create(&thread, NULL, wait_for_slot, NULL), 0);
  await_waiting();
  assert_false(worker_share_slot(made, link));
  assert_false(worker_try_acquire_slot(made, &other));
  worker_release_slot(made, link);
  assert_false(has_slot); // one has it still
  worker_release_slot(made, link);
  void *error;
  pthread_join(thread, &error);
  assert_null(error);
  assert_true(has_slot);
}

static void who_has_work_waits_for_a_worker_that_starts(void **state)
{
  (void)state;
  pthread_t thread;
  void *error;
  has_slot = false;
  assert_int_equal(pthread_create(&thread, NULL, wait_for_slot, NULL), 0);
  for (unsigned users = 0; users == 0; sched_yield()) {
    pthread_mutex_lock(&made->lock);
    users = made->slot_users;
    pthread_mutex_unlock(&made->lock);
  }
  assert_false(has_slot);
  set_state(WORKER_READY);
  pthread_join(thread, &error);
  assert_null(error);
}

static void nobody_waits_for_a_model_that_dies_often(void **state)
{
  (void)state;
  worker_link *link;
  uint64_t before = clock_monotonic_ns();
  made->dies_often = true;
  TRITONSERVER_Error *error = worker_acquire_slot(made, &link);
  assert_int_equal(TRITONSERVER_ErrorCode(error), TRITONSERVER_ERROR_UNAVAILABLE);
  TRITONSERVER_ErrorDelete(error);
  assert_int_equal(made->slot_users, 0);
  assert_true(clock_monotonic_ns() - before < (uint64_t)SETTINGS.timeout_s * NS_PER_S);
}

static void a_worker_that_breaks_its_rings_is_not_waited_for(void **state)
{
  (void)state;
  set_state(WORKER_READY);
  assert_null(worker_why_gone(made, made->link, false)); // its end has not been seen
  made->ended = 1;
  TRITONSERVER_Error *error = worker_why_gone(made, made->link, false);
  assert_non_null(error);
  TRITONSERVER_ErrorDelete(error);
  made->ended = 0;
  made->number = 2; // another one's link has ended
  worker_link *other = made->link;
  made->link = NULL;
  error = worker_why_gone(made, other, false);
  assert_non_null(error);
  TRITONSERVER_ErrorDelete(error);
  made->link = other;
}

static void *is_here(void *argument)
{
  cpu_set_t cores;
  (void)argument;
  assert_true(worker_is_here(made)); // as the thread that made this one
  assert_int_equal(sched_getaffinity(0, sizeof cores, &cores), 0);
  if (CPU_COUNT(&cores) == 1)
    return NULL;
  for (int core = 0, seen = 0; core < CPU_SETSIZE; core++) // all but the first
    if (CPU_ISSET(core, &cores) && seen++ > 0)
      CPU_CLR(core, &cores);
  assert_int_equal(sched_setaffinity(0, sizeof cores, &cores), 0);
  assert_false(worker_is_here(made));
  return NULL;
}

static void a_worker_is_where_the_thread_was_that_made_it(void **state)
{
  (void)state;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, is_here, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
}

static void who_wants_a_worker_that_is_gone_is_told_how_it_ended(void **state)
{
  (void)state;
  worker_link *link;
  char text[128];
  set_state(WORKER_READY);
  assert_false(worker_has_fault(made, text, sizeof text));
  set_state(WORKER_DOWN);
  made->ended = 1;
  made->retry_ns = UINT64_MAX; // in its pause
  made->cause = strdup("it was ended by signal SIGKILL");
  assert_error(
      worker_acquire_slot(made, &link),
      "Stub process 'played_0' is not healthy. The Python worker of model 'played' ended: it was "
      "ended by signal SIGKILL");
  assert_error(
      worker_why_gone(made, made->link, true),
      "Stub process 'played_0' is not healthy. The Python worker of model 'played' ended: it was "
      "ended by signal SIGKILL");
  assert_true(worker_has_fault(made, text, sizeof text));
  assert_string_equal(
      text, "Stub process 'played_0' is not healthy. It ended: it was ended by signal SIGKILL");
  assert_error(worker_check_ready(made), text);
}

static void a_worker_that_ended_after_its_greeting_completes_nothing(void **state)
{
  (void)state;
  char *completed;
  set_state(WORKER_DOWN);
  made->has_complete = true;
  made->ended = 1;
  worker_link_unref(made->link);
  made->link = NULL;
  assert_error(worker_complete(made, "{}", &completed),
               "Stub process 'played_0' is not healthy. The Python worker of model 'played' ended: "
               "it is not known how");
  assert_null(completed);
}

static void a_worker_that_need_not_be_asked_is_ready_at_once(void **state)
{
  (void)state;
  worker_link *link;
  set_state(WORKER_READY);
  assert_true(worker_try_acquire_slot(made, &link));
  assert_null(worker_check_ready(made)); // it has no is_ready
  made->has_is_ready = is_waiting = true;
  assert_null(worker_check_ready(made)); // it waits for another model's reply, so it works
  assert_int_equal(made->checked, WORKER_CHECKED_GOOD);
  made->checks = 1; // while it is asked others hear what was found before
  assert_null(worker_check_ready(made));
  made->checked = WORKER_CHECKED_BAD;
  assert_error(worker_check_ready(made), "Timed out waiting for in-flight is_ready() response");
  made->checks = 0;
  worker_release_slot(made, link);
}

static void it_tells_what_lines_are_about(void **state)
{
  (void)state;
  const NEREID_LogSubject about = worker_log_subject(made);
  assert_string_equal(about.model, "played");
  assert_int_equal(about.version, 3);
  assert_string_equal(about.instance, "played_0");
  assert_true(worker_is_here(made));
  const uint64_t number = worker_next_number(made);
  assert_true(worker_next_number(made) == number + 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(only_one_has_the_slot, begin, end),
      cmocka_unit_test_setup_teardown(the_slot_is_shared_behind_the_same_worker_only, begin, end),
      cmocka_unit_test_setup_teardown(who_waits_has_the_slot_before_who_comes_later, begin, end),
      cmocka_unit_test_setup_teardown(who_has_work_waits_for_a_worker_that_starts, begin, end),
      cmocka_unit_test_setup_teardown(nobody_waits_for_a_model_that_dies_often, begin, end),
      cmocka_unit_test_setup_teardown(a_worker_that_breaks_its_rings_is_not_waited_for, begin, end),
      cmocka_unit_test_setup_teardown(a_worker_is_where_the_thread_was_that_made_it, begin, end),
      cmocka_unit_test_setup_teardown(who_wants_a_worker_that_is_gone_is_told_how_it_ended, begin,
                                      end),
      cmocka_unit_test_setup_teardown(a_worker_that_ended_after_its_greeting_completes_nothing,
                                      begin, end),
      cmocka_unit_test_setup_teardown(a_worker_that_need_not_be_asked_is_ready_at_once, begin, end),
      cmocka_unit_test_setup_teardown(it_tells_what_lines_are_about, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
