// SPDX-License-Identifier: Apache-2.0
// A worker process from outside: what it prints, how it starts and ends, and where it runs. A shell
// stands for the launcher.
#include "base/cleanup.h"
#include "process/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <cmocka.h>

#define PROCESS_TEST_KILL 64

static void expect_error(TRITONSERVER_Error *error, const char *text)
{
  assert_non_null(error);
  if (strstr(TRITONSERVER_ErrorMessage(error), text) == NULL)
    fail_msg("'%s' lacks '%s'", TRITONSERVER_ErrorMessage(error), text);
  TRITONSERVER_ErrorDelete(error);
}

// ---- output

static char lines[2 * MAX_WORKER_LINE]; // each with '|' behind, or '>' when it was cut

static void take_line(void *user, const char *text, size_t length, bool cut)
{
  (void)user;
  size_t used = strlen(lines);
  snprintf(lines + used, sizeof lines - used, "%.*s%c", (int)length, text, cut ? '>' : '|');
}

static void a_pipe_is_cut_into_lines(void **state)
{
  (void)state;
  worker_output output;
  int ends[2];
  char large[MAX_WORKER_LINE + 11];
  lines[0] = '\0';
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  output = (worker_output){.descriptor = ends[0], .take_line = take_line};
  assert_true(worker_output_read(&output)); // nothing is there yet
  assert_int_equal(write(ends[1], "one\r\nt\0o\n\nbegun", 15), 15);
  assert_true(worker_output_read(&output));
  assert_string_equal(lines, "one|t o||");
  assert_int_equal(write(ends[1], ", ended\nlast", 12), 12);
  assert_true(worker_output_read(&output));
  assert_string_equal(lines, "one|t o||begun, ended|");
  close(ends[1]);
  worker_output_end(&output);
  assert_string_equal(lines, "one|t o||begun, ended|last|");
  assert_string_equal(output.last, "last");
  assert_false(worker_output_read(&output));
  assert_int_equal(fcntl(ends[0], F_GETFD), -1);

  lines[0] = '\0';
  memset(large, 'x', sizeof large);
  large[sizeof large - 1] = '\n';
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  output = (worker_output){.descriptor = ends[0], .take_line = take_line};
  assert_int_equal(write(ends[1], large, sizeof large), sizeof large);
  assert_true(worker_output_read(&output));
  assert_int_equal(strlen(lines), MAX_WORKER_LINE + 1);
  assert_int_equal(lines[MAX_WORKER_LINE], '>');
  assert_int_equal(strlen(output.last), sizeof output.last - 1);
  close(ends[1]);
  assert_false(worker_output_read(&output)); // by itself at its end
  assert_int_equal(fcntl(ends[0], F_GETFD), -1);
}

// ---- start and end

static char *_Atomic cause; // how the process ended
static atomic_uint timers_run_out;
static atomic_bool has_said; // a line

static void take_process_line(void *user, const char *text, size_t length, bool cut)
{
  take_line(user, text, length, cut);
  has_said = true;
}

static void take_timer(void *user, int timer)
{
  uint64_t times;
  (void)user;
  assert_int_equal(read(timer, &times, sizeof times), sizeof times);
  timers_run_out++;
}

static void take_end(void *user, char *how)
{
  (void)user;
  assert_null(cause); // it comes once
  cause = how;
}

static const process_events EVENTS = {
    .line = take_process_line, .timer = take_timer, .ended = take_end};

static int connection[2]; // ours, the process's
static int timer;

static int set_up(void **state)
{
  (void)state;
  lines[0] = '\0';
  has_said = false;
  timers_run_out = 0;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, connection), 0);
  timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  free(cause);
  cause = NULL;
  close(timer);
  close(connection[0]);
  return 0;
}

static TRITONSERVER_Error *start_program(worker_process **process, const char *program,
                                         const char *script)
{
  char *const arguments[] = {(char *)program, (char[]){"-c"}, (char *)script, NULL};
  char *const environment[] = {(char[]){"NAME=value"}, NULL};
  const worker_command command = {.what = "a worker",
                                  .thread = "process",
                                  .kill_signal = PROCESS_TEST_KILL,
                                  .arguments = arguments,
                                  .environment = environment,
                                  .socket = connection[1],
                                  .connection = connection[0],
                                  .timer = timer};
  TRITONSERVER_Error *error = worker_process_start(&command, &EVENTS, NULL, process);
  close(connection[1]);
  return error;
}

static worker_process *start_shell(const char *script)
{
  worker_process *process;
  assert_null(start_program(&process, "/bin/sh", script));
  return process;
}

static void expect_end(worker_process *process, const char *expected)
{
  worker_process_free(process); // waits for it
  assert_non_null(cause);
  assert_string_equal(cause, expected);
}

static void a_process_has_its_four_descriptors_and_its_environment(void **state)
{
  (void)state;
  expect_end(start_shell("read line || echo nothing $NAME; for i in 0 1 2 3 4 5; do "
                         "test -e /proc/$$/fd/$i && echo $i; done; exit 3"),
             "it exited with status 3");
  assert_string_equal(lines, "nothing value|0|1|2|3|");
}

static void a_process_that_exits_is_told_with_what_it_last_printed(void **state)
{
  (void)state;
  expect_end(start_shell("echo for the log; echo why >&2; exit 3"),
             "it exited with status 3; it last printed: why");
}

static void a_signal_that_ended_a_process_is_named(void **state)
{
  (void)state;
  expect_end(start_shell("kill -SEGV $$"), "it was ended by signal SIGSEGV");
}

static void await(const atomic_bool *what)
{
  for (int i = 0; i < 60000 && !*what; i++)
    usleep(1000);
  assert_true(*what);
}

static void a_process_that_is_stopped_can_be_killed(void **state)
{
  (void)state;
  worker_process *process = start_shell("echo here; kill -STOP $$");
  await(&has_said);
  worker_process_kill(process);
  worker_process_kill(process); // once more does nothing
  expect_end(process, "it was ended by the server");
}

static void a_process_that_has_ended_is_not_killed_any_more(void **state)
{
  (void)state;
  worker_process *process = start_shell("exit 0");
  for (int i = 0; i < 60000 && cause == NULL; i++)
    usleep(1000);
  worker_process_kill(process); // its number may be another's
  expect_end(process, "it exited with status 0");
}

static void a_process_that_lets_go_of_its_connection_is_ended(void **state)
{
  (void)state;
  expect_end(start_shell("exec 3>&-; while :; do sleep 60; done"),
             "it let go of its connection to the server, as by os.exec, and was ended");
}

static void run_timer_out(void)
{
  const struct itimerspec soon = {.it_value.tv_nsec = 1};
  unsigned before = timers_run_out;
  assert_int_equal(timerfd_settime(timer, 0, &soon, NULL), 0);
  for (int i = 0; i < 60000 && timers_run_out == before; i++)
    usleep(1000);
  assert_int_equal(timers_run_out, before + 1);
}

static void the_first_reason_for_an_end_is_kept(void **state)
{
  (void)state;
  char go[] = "/tmp/process_test_XXXXXX", script[256];
  close(mkstemp(go));
  snprintf(script, sizeof script,
           "trap '' 64; exec 3>&-; echo here; while test -e %s; do sleep 0.01; done; "
           "trap - 64; kill -64 $$",
           go);
  worker_process *process = start_shell(script);
  await(&has_said);
  run_timer_out(); // its thread has looked at the connection
  worker_process_kill(process);
  assert_int_equal(unlink(go), 0);
  expect_end(process, "it let go of its connection to the server, as by os.exec, and was ended");
}

static void its_thread_tells_that_the_timer_has_run_out(void **state)
{
  (void)state;
  worker_process *process = start_shell("kill -STOP $$");
  run_timer_out();
  run_timer_out();
  worker_process_kill(process);
  expect_end(process, "it was ended by the server");
}

static void a_program_that_cannot_be_started_is_named_with_the_reason(void **state)
{
  (void)state;
  worker_process *process = NULL;
  expect_error(start_program(&process, "/absent/launcher", ""),
               "cannot start a worker by '/absent/launcher': No such file or directory (it "
               "belongs beside the backend's library)");
  assert_null(process);
  assert_null(cause); // who starts it has the error
}

static void a_program_that_may_not_be_executed_is_named_with_the_advice(void **state)
{
  (void)state;
  worker_process *process = NULL;
  expect_error(start_program(&process, "/etc/passwd", ""),
               "the server's user must be permitted to execute it");
}

static unsigned open_descriptors(void)
{
  unsigned count = 0;
  for (int i = 0; i < 256; i++)
    count += fcntl(i, F_GETFD) >= 0;
  return count;
}

// Whichever descriptor is the one too many.
static void a_process_without_descriptors_is_refused_and_leaves_none(void **state)
{
  (void)state;
  struct rlimit before;
  unsigned refused = 0;
  const unsigned open = open_descriptors() - 1;
  const int next = fcntl(connection[1], F_DUPFD_CLOEXEC, 0);
  close(next);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  close(connection[1]);
  for (bool started = false; !started; refused += !started) {
    const struct rlimit few = {.rlim_cur = (rlim_t)next + refused, .rlim_max = before.rlim_max};
    worker_process *process = NULL;
    close(connection[0]); // start_program closes the other one
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, connection), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    TRITONSERVER_Error *error = start_program(&process, "/bin/sh", "exit 3");
    started = error == NULL;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    if (started)
      expect_end(process, "it exited with status 3");
    else
      expect_error(error, "Too many open files (the server has as many descriptors as it may");
    assert_int_equal(open_descriptors(), open);
  }
  assert_in_range(refused, 4, 8);
}

static void a_process_without_a_thread_is_refused(void **state)
{
  (void)state;
  pthread_attr_t before, huge;
  worker_process *process = NULL;
  assert_int_equal(pthread_getattr_default_np(&before), 0);
  assert_int_equal(pthread_getattr_default_np(&huge), 0);
  assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 52), 0); // more than there can be
  assert_int_equal(pthread_setattr_default_np(&huge), 0);
  expect_error(start_program(&process, "/bin/sh", "exit 0"),
               "cannot start a thread: Resource temporarily unavailable");
  assert_int_equal(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&before);
  assert_null(process);
  assert_null(cause);
}

// ---- where it runs

static void *start_there(void *argument)
{
  cpu_set_t *core = argument;
  assert_int_equal(sched_getaffinity(0, sizeof *core, core), 0);
  for (int i = 0, seen = 0; i < CPU_SETSIZE; i++) // all but the first
    if (CPU_ISSET(i, core) && seen++ > 0)
      CPU_CLR(i, core);
  assert_int_equal(sched_setaffinity(0, sizeof *core, core), 0);
  expect_end(start_shell("grep -c Cpus_allowed_list:.[0-9]*$ /proc/self/status"),
             "it exited with status 0");
  return NULL;
}

static void a_process_is_where_the_thread_was_that_started_it(void **state)
{
  (void)state;
  pthread_t thread;
  cpu_set_t core;
  assert_int_equal(pthread_create(&thread, NULL, start_there, &core), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(lines, "1|"); // a single core
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pipe_is_cut_into_lines),
      TEST(a_process_has_its_four_descriptors_and_its_environment),
      TEST(a_process_that_exits_is_told_with_what_it_last_printed),
      TEST(a_signal_that_ended_a_process_is_named),
      TEST(a_process_that_is_stopped_can_be_killed),
      TEST(a_process_that_has_ended_is_not_killed_any_more),
      TEST(a_process_that_lets_go_of_its_connection_is_ended),
      TEST(the_first_reason_for_an_end_is_kept),
      TEST(its_thread_tells_that_the_timer_has_run_out),
      TEST(a_program_that_cannot_be_started_is_named_with_the_reason),
      TEST(a_program_that_may_not_be_executed_is_named_with_the_advice),
      TEST(a_process_without_descriptors_is_refused_and_leaves_none),
      TEST(a_process_without_a_thread_is_refused),
      TEST(a_process_is_where_the_thread_was_that_started_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
