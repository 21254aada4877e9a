// SPDX-License-Identifier: Apache-2.0
// The life of a worker (process/worker.c, worker_rpc.c): its start, what is asked of it, its end,
// the next one. The process is worker_program.c, started without the launcher.
#include "base/thread.h"
#include "codec/protocol.h"
#include "process/worker_end.h"
#include "process/worker_parts.h"
#include "worker_program.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND ((uint64_t)1000000000)

// ---- the owner

static atomic_uint begun, ended, gone, calls;
static uint64_t last_call;  // its value
static char last_gone[512]; // the error's text; before `gone` counts it
static bool refuses_calls;

static TRITONSERVER_Error *calls_begun(void *user, worker_link *link)
{
  assert_true(user == &begun && link != NULL);
  if (refuses_calls)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "no calls");
  begun++;
  return NULL;
}

static void take_call(void *user, worker_link *link, const channel_message *call)
{
  (void)user, (void)link;
  last_call = call->value;
  calls++;
}

static bool has_calls(void *user)
{
  (void)user;
  return false;
}

static void calls_ended(void *user)
{
  (void)user;
  ended++;
}

static void take_gone(void *user, TRITONSERVER_Error *error)
{
  (void)user;
  snprintf(last_gone, sizeof last_gone, "%s", TRITONSERVER_ErrorMessage(error));
  gone++;
}

static bool waits(const void *user)
{
  (void)user;
  return false;
}

static const worker_events EVENTS = {.calls_begun = calls_begun,
                                     .call = take_call,
                                     .has_calls = has_calls,
                                     .calls_ended = calls_ended,
                                     .gone = take_gone,
                                     .waits = waits};

static char *load_text(const void *user, const char *instance_name)
{
  (void)user;
  return strdup(instance_name);
}

// ---- the worker

static char starts[] = "/tmp/worker_life_XXXXXX";
static char program[] = WORKER_PROGRAM;
static char *command[4] = {program, NULL, starts};
static char *const environment[] = {NULL};
static worker_settings settings = {.model = "played",
                                   .version = 3,
                                   .command = command,
                                   .environment = environment,
                                   .interpreter = "/usr/bin/python3",
                                   .shared_bytes = 64 << 20,
                                   .load_text = load_text};
static worker *made;

static int set_up(void **state)
{
  (void)state;
  begun = ended = gone = calls = 0;
  refuses_calls = false;
  settings.timeout_s = 60;
  command[0] = program;
  memcpy(starts + strlen(starts) - 6, "XXXXXX", 6);
  close(mkstemp(starts));
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  worker_free(made);
  made = NULL;
  return unlink(starts);
}

static size_t start_count(void)
{
  struct stat status;
  assert_int_equal(stat(starts, &status), 0);
  return (size_t)status.st_size;
}

static TRITONSERVER_Error *start(const char *script)
{
  command[1] = (char *)script;
  made = worker_new(&settings, "played_0", &EVENTS, &begun);
  assert_non_null(made);
  return worker_start(made);
}

static void start_ready(const char *script)
{
  assert_null(start(script));
  assert_null(worker_initialize(made, "played_0_1", "{}"));
  assert_int_equal(made->state, WORKER_READY);
}

static void expect_error(TRITONSERVER_Error *error, TRITONSERVER_Error_Code code, const char *text)
{
  assert_non_null(error);
  if (strstr(TRITONSERVER_ErrorMessage(error), text) == NULL)
    fail_msg("'%s' lacks '%s'", TRITONSERVER_ErrorMessage(error), text);
  assert_int_equal(TRITONSERVER_ErrorCode(error), code);
  TRITONSERVER_ErrorDelete(error);
}

static void await_state(worker_state state)
{
  uint64_t deadline = worker_deadline(60);
  pthread_mutex_lock(&made->lock);
  while (made->state != state && thread_wait(&made->changed, &made->lock, deadline))
    ;
  assert_int_equal(made->state, state);
  pthread_mutex_unlock(&made->lock);
}

static void await_at_least(const atomic_uint *count, unsigned expected)
{
  for (int i = 0; i < 60000 && *count < expected; i++)
    usleep(1000);
  assert_true(*count >= expected);
}

static void await_count(const atomic_uint *count, unsigned expected)
{
  await_at_least(count, expected);
  assert_int_equal(*count, expected);
}

// Has the worker do something as an execution does, and gives what worker_await gave.
static TRITONSERVER_Error *execute(uint64_t what, int64_t timeout_us)
{
  worker_link *link;
  channel_message message;
  TRITONSERVER_Error *error = worker_acquire_slot(made, &link);
  if (error != NULL)
    return error;
  channel_message work = {.kind = WORK_EXECUTE, .id = worker_next_number(made), .value = what};
  assert_true(channel_send(link->channel, CHANNEL_WORK, &work));
  bool came = worker_await(made, link, work.id, timeout_us, &message, &error);
  if (came && error == NULL) {
    assert_int_equal(message.id, work.id);
    channel_done(link->channel, CHANNEL_ANSWERS);
  } else if (!came) {
    error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "none yet");
  }
  worker_release_slot(made, link);
  return error;
}

// ---- its start

static void a_worker_loads_completes_initializes_works_and_finalizes(void **state)
{
  (void)state;
  char *completed;
  assert_null(start("r"));
  assert_string_equal(worker_name(made), "played_0");
  assert_int_equal(made->state, WORKER_STARTING);
  assert_null(worker_complete(made, "{}", &completed));
  assert_string_equal(completed, "{\"completed\":true}");
  free(completed);
  assert_null(worker_initialize(made, "played_0_1", "{}"));
  assert_string_equal(worker_name(made), "played_0_1"); // the instance's, from here on
  assert_int_equal(made->state, WORKER_READY);
  assert_null(execute(PLAYED_ANSWER, -1));
  assert_null(execute(PLAYED_CALL, -1));
  await_count(&calls, 1);
  assert_int_equal(last_call, 77);
  worker_stop(made);
  assert_string_equal(made->cause, "it exited with status 0"); // by itself, and not again
  assert_int_equal(start_count(), 1);
  assert_true(begun == 1 && ended == 1 && gone == 1);
}

static void a_model_without_auto_complete_config_completes_nothing(void **state)
{
  (void)state;
  char *completed = (char[]){"x"};
  assert_null(start("o"));
  assert_null(worker_complete(made, "{}", &completed));
  assert_null(completed);
  assert_null(worker_initialize(made, "played_0_1", "{}"));
  assert_null(worker_check_ready(made)); // nor is it asked
  worker_stop(made);
}

static void a_worker_that_cannot_be_started_says_why(void **state)
{
  (void)state;
  command[0] = (char[]){"/absent/launcher"};
  expect_error(start("r"), TRITONSERVER_ERROR_UNAVAILABLE,
               "cannot start a Python worker by '/absent/launcher'");
  assert_true(begun == 0 && gone == 0);
}

static void a_worker_that_ends_before_its_hello_is_told_with_its_cause(void **state)
{
  (void)state;
  expect_error(start("h"), TRITONSERVER_ERROR_INTERNAL, "ended: it exited with status 7");
  assert_int_equal(start_count(), 1); // its end is final until it is initialized
}

static void a_worker_that_says_nothing_is_given_up(void **state)
{
  (void)state;
  settings.timeout_s = 1;
  expect_error(start("s"), TRITONSERVER_ERROR_UNAVAILABLE,
               "Python '/usr/bin/python3' did not start within 1 seconds");
  assert_string_equal(made->cause, "it was ended by the server");
}

static void a_worker_of_another_version_is_refused(void **state)
{
  (void)state;
  expect_error(start("v"), TRITONSERVER_ERROR_INTERNAL, "is of another version");
}

static void a_model_that_cannot_be_imported_says_why(void **state)
{
  (void)state;
  expect_error(start("l"), TRITONSERVER_ERROR_INTERNAL, "no module named 'absent'");
}

static void a_worker_whose_calls_cannot_be_served_is_ended(void **state)
{
  (void)state;
  refuses_calls = true;
  TRITONSERVER_Error *error = start("s");
  expect_error(error, TRITONSERVER_ERROR_INTERNAL, "The Python worker of model 'played' ended: ");
  assert_int_equal(ended, 0);
  assert_int_equal(gone, 1);
}

static void a_model_that_cannot_be_initialized_is_not_started_again(void **state)
{
  (void)state;
  assert_null(start("i"));
  expect_error(worker_initialize(made, "played_0_1", "{}"), TRITONSERVER_ERROR_INTERNAL,
               "no module named 'absent'");
  worker_stop(made);
  assert_int_equal(start_count(), 1);
}

// ---- its end, and the next one

static void a_worker_that_ended_is_followed_by_another_at_once(void **state)
{
  (void)state;
  start_ready("r");
  expect_error(execute(PLAYED_EXIT, -1), TRITONSERVER_ERROR_INTERNAL,
               "Stub process 'played_0_1' is not healthy. The Python worker of model 'played' "
               "ended: it exited with status 3");
  assert_null(execute(PLAYED_ANSWER, -1)); // who has work waits for the next one
  assert_int_equal(start_count(), 2);
  assert_int_equal(made->number, 2);
  assert_int_equal(gone, 1);
  assert_non_null(strstr(last_gone, "it exited with status 3"));
  worker_stop(made);
  assert_true(begun == 2 && ended == 2 && gone == 2);
}

static void in_a_pause_nobody_waits(void **state)
{
  (void)state;
  start_ready("r");
  made->failures = 7; // the next pause is the longest
  expect_error(execute(PLAYED_KILL, -1), TRITONSERVER_ERROR_INTERNAL, "by signal SIGKILL");
  await_count(&gone, 1);
  expect_error(execute(PLAYED_ANSWER, -1), TRITONSERVER_ERROR_INTERNAL, "by signal SIGKILL");
  assert_int_equal(made->state, WORKER_DOWN);
  worker_stop(made); // does not wait for the pause either
  assert_int_equal(start_count(), 1);
}

static void a_next_start_that_fails_is_an_end_like_others(void **state)
{
  (void)state;
  start_ready("rlr");
  expect_error(execute(PLAYED_EXIT, -1), TRITONSERVER_ERROR_INTERNAL, "status 3");
  await_count(&gone, 2);
  assert_non_null(strstr(last_gone, "ended: no module named 'absent'")); // not: ended by the server
  assert_int_equal(made->failures, 2);
  await_state(WORKER_READY); // after a pause of a second
  assert_int_equal(start_count(), 3);
  worker_stop(made);
}

static void a_program_that_is_gone_at_the_next_start_is_looked_for_again(void **state)
{
  (void)state;
  start_ready("r");
  command[0] = (char[]){"/absent/launcher"};
  expect_error(execute(PLAYED_EXIT, -1), TRITONSERVER_ERROR_INTERNAL, "status 3");
  await_at_least(&gone, 2); // one more each second
  assert_non_null(strstr(last_gone, "cannot start a Python worker by '/absent/launcher'"));
  pthread_mutex_lock(&made->lock);
  command[0] = program;
  pthread_mutex_unlock(&made->lock);
  await_state(WORKER_READY);
  worker_stop(made);
}

static void a_worker_can_be_stopped_while_the_next_one_starts(void **state)
{
  (void)state;
  start_ready("rs");
  expect_error(execute(PLAYED_EXIT, -1), TRITONSERVER_ERROR_INTERNAL, "status 3");
  for (int i = 0; i < 60000 && start_count() < 2; i++)
    usleep(1000);
  worker_stop(made);
  assert_int_equal(start_count(), 2);
}

static void a_worker_that_does_not_finalize_is_killed(void **state)
{
  (void)state;
  start_ready("f");
  settings.timeout_s = 1;
  worker_stop(made);
  assert_string_equal(made->cause, "it was ended by the server");
}

static void an_answer_that_takes_long_is_waited_for_again(void **state)
{
  (void)state;
  start_ready("r");
  expect_error(execute(PLAYED_HANG, 1000), TRITONSERVER_ERROR_UNAVAILABLE, "none yet");
  assert_int_equal(made->state, WORKER_READY);
  assert_null(execute(PLAYED_ANSWER, -1));
  worker_stop(made);
}

// ---- pauses, by a clock of the test's

static unsigned count_death(uint64_t now)
{
  unsigned pause = worker_count_death_locked(made, now);
  assert_true(made->retry_ns == now + pause * SECOND);
  return pause;
}

static void pauses_grow_to_a_minute(void **state)
{
  (void)state;
  static const unsigned PAUSES[] = {0, 1, 2, 4, 8, 16, 32, 60, 60, 60};
  made = worker_new(&settings, "played_0", &EVENTS, NULL);
  for (size_t i = 0; i < sizeof PAUSES / sizeof PAUSES[0]; i++) {
    made->ready_ns = (1000 + i * 100) * SECOND;
    assert_int_equal(count_death(made->ready_ns + 59 * SECOND), PAUSES[i]);
  }
  made->ready_ns = 5000 * SECOND; // served for a minute: from the start again
  assert_int_equal(count_death(5060 * SECOND), 0);
  assert_int_equal(count_death(5200 * SECOND), 1); // never became ready
}

static void five_ends_within_a_minute_make_the_model_unavailable(void **state)
{
  (void)state;
  made = worker_new(&settings, "played_0", &EVENTS, NULL);
  for (uint64_t now = 100; now < 140; now += 10) {
    count_death(now * SECOND);
    assert_false(made->dies_often);
  }
  count_death(159 * SECOND);
  assert_true(made->dies_often);
  expect_error(worker_gone_locked(made, NULL), TRITONSERVER_ERROR_UNAVAILABLE,
               "it is not known how");
  count_death(171 * SECOND); // the second of the six was more than a minute ago
  assert_false(made->dies_often);
  expect_error(worker_gone_locked(made, NULL), TRITONSERVER_ERROR_INTERNAL, "it is not known how");
}

// ---- readiness

static void a_worker_is_asked_whether_it_is_ready(void **state)
{
  (void)state;
  start_ready("r");
  assert_null(worker_check_ready(made));
  assert_int_equal(made->checked, WORKER_CHECKED_GOOD);
  worker_ask_ready(made);
  assert_int_not_equal(made->link->question, 0); // it is asked already
  assert_null(worker_check_ready(made));
  assert_int_equal(made->link->question, 0);
  worker_stop(made);
}

static void a_model_that_says_no_is_not_ready(void **state)
{
  (void)state;
  start_ready("b");
  expect_error(worker_check_ready(made), TRITONSERVER_ERROR_UNAVAILABLE,
               "Model 'played_0_1' is not ready (user-defined check failed).");
  assert_int_equal(made->checked, WORKER_CHECKED_BAD);
  worker_stop(made);
}

static void a_question_that_is_not_answered_is_not_asked_twice(void **state)
{
  (void)state;
  start_ready("q");
  made->ready_until_ns = clock_monotonic_ns() + 1000000; // announced long ago
  expect_error(worker_check_ready(made), TRITONSERVER_ERROR_UNAVAILABLE,
               "the Python worker of model 'played' did not answer within 5 seconds");
  uint64_t question = made->link->question;
  assert_int_not_equal(question, 0);
  worker_ask_ready(made);
  assert_true(made->link->question == question);
  assert_null(execute(PLAYED_ANSWER, -1)); // passes the late answer over
  assert_int_equal(made->link->question, 0);
  worker_stop(made);
}

static void what_was_announced_to_a_worker_does_not_hold_for_the_next(void **state)
{
  (void)state;
  start_ready("r");
  made->ready_until_ns = 1; // announced, and over
  expect_error(execute(PLAYED_EXIT, -1), TRITONSERVER_ERROR_INTERNAL, "status 3");
  assert_null(execute(PLAYED_ANSWER, -1));
  assert_int_equal(made->number, 2);
  assert_null(worker_check_ready(made)); // has its own five seconds
  worker_stop(made);
}

// ---- memory

static void idle_memory_is_given_back(void **state)
{
  (void)state;
  start_ready("r");
  channel *channel = made->link->channel;
  uint64_t block;
  size_t used, kept = SIZE_MAX;
  assert_true(channel_allocate(channel, 16 << 20, &block));
  memset(channel_own(channel, block), 1, 16 << 20);
  assert_true(channel_release(channel, block));
  channel_memory(channel, &used, &kept);
  assert_true(kept > KEPT_BYTES);
  worker_touch(made);
  for (int i = 0; i < 60000 && kept > KEPT_BYTES; i++) {
    usleep(1000);
    channel_memory(channel, &used, &kept);
  }
  assert_true(kept <= KEPT_BYTES);
  assert_false(made->touched);
  worker_stop(made);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_worker_loads_completes_initializes_works_and_finalizes),
      TEST(a_model_without_auto_complete_config_completes_nothing),
      TEST(a_worker_that_cannot_be_started_says_why),
      TEST(a_worker_that_ends_before_its_hello_is_told_with_its_cause),
      TEST(a_worker_that_says_nothing_is_given_up),
      TEST(a_worker_of_another_version_is_refused),
      TEST(a_model_that_cannot_be_imported_says_why),
      TEST(a_worker_whose_calls_cannot_be_served_is_ended),
      TEST(a_model_that_cannot_be_initialized_is_not_started_again),
      TEST(a_worker_that_ended_is_followed_by_another_at_once),
      TEST(in_a_pause_nobody_waits),
      TEST(a_next_start_that_fails_is_an_end_like_others),
      TEST(a_program_that_is_gone_at_the_next_start_is_looked_for_again),
      TEST(a_worker_can_be_stopped_while_the_next_one_starts),
      TEST(a_worker_that_does_not_finalize_is_killed),
      TEST(an_answer_that_takes_long_is_waited_for_again),
      TEST(pauses_grow_to_a_minute),
      TEST(five_ends_within_a_minute_make_the_model_unavailable),
      TEST(a_worker_is_asked_whether_it_is_ready),
      TEST(a_model_that_says_no_is_not_ready),
      TEST(a_question_that_is_not_answered_is_not_asked_twice),
      TEST(what_was_announced_to_a_worker_does_not_hold_for_the_next),
      TEST(idle_memory_is_given_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
