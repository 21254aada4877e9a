// A worker process from outside: what it prints, how it starts and ends, where it runs, and the
// command line that keeps it from things. A shell stands for the launcher.
#include "base/cleanup.h"
#include "process/placement.h"
#include "process/sandbox.h"
#include "process/start.h"
#include "process/text_vector.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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
  assert_true(worker_output_init(&output, ends[0], take_line, NULL));
  assert_true(worker_output_read(&output)); // nothing is there yet
  assert_int_equal(write(ends[1], "one\r\nt\0o\n\nbegun", 15), 15);
  assert_true(worker_output_read(&output));
  assert_string_equal(lines, "one|t o||");
  assert_int_equal(write(ends[1], ", ended\nlast", 12), 12);
  assert_true(worker_output_read(&output));
  assert_string_equal(lines, "one|t o||begun, ended|");
  close(ends[1]);
  worker_output_drain(&output);
  assert_string_equal(lines, "one|t o||begun, ended|last|");
  assert_string_equal(output.last, "last");
  assert_false(worker_output_read(&output));
  worker_output_fini(&output);
  assert_int_equal(fcntl(ends[0], F_GETFD), -1);

  lines[0] = '\0';
  memset(large, 'x', sizeof large);
  large[sizeof large - 1] = '\n';
  assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
  assert_true(worker_output_init(&output, ends[0], take_line, NULL));
  assert_int_equal(write(ends[1], large, sizeof large), sizeof large);
  assert_true(worker_output_read(&output));
  assert_int_equal(strlen(lines), MAX_WORKER_LINE + 1);
  assert_int_equal(lines[MAX_WORKER_LINE], '>');
  assert_int_equal(strlen(output.last), sizeof output.last - 1);
  close(ends[1]);
  worker_output_fini(&output);
}

// ---- start and end

static TRITONSERVER_Error *start_program(worker_process *process, const char *program,
                                         const char *script)
{
  static const worker_placement anywhere = {.known = false};
  char *const arguments[] = {(char *)program, (char[]){"-c"}, (char *)script, NULL};
  char *const environment[] = {(char[]){"NAME=value"}, NULL};
  AUTO_CLOSE int socket = open("/dev/null", O_RDWR | O_CLOEXEC);
  const worker_command command = {.arguments = arguments,
                                  .environment = environment,
                                  .socket = socket,
                                  .placement = &anywhere,
                                  .take_line = take_line};
  lines[0] = '\0';
  return worker_process_start(process, &command);
}

static void start_shell(worker_process *process, const char *script)
{
  assert_null(start_program(process, "/bin/sh", script));
  assert_int_equal(process->state, PROCESS_RUNNING);
}

static void expect_end(worker_process *process, const char *cause)
{
  struct pollfd ended = {.fd = process->handle, .events = POLLIN};
  assert_int_equal(poll(&ended, 1, 30000), 1);
  char *given = worker_process_reap(process);
  assert_string_equal(given, cause);
  assert_int_equal(process->state, PROCESS_ENDED);
  free(given);
}

static void a_process_has_its_four_descriptors_and_its_environment(void **state)
{
  (void)state;
  worker_process process;
  start_shell(&process, "read line || echo nothing $NAME; for i in 0 1 2 3 4 5; do "
                        "test -e /proc/$$/fd/$i && echo $i; done; exit 3");
  expect_end(&process, "it exited with status 3");
  assert_string_equal(lines, "nothing value|0|1|2|3|");
}

static void how_a_process_ended_is_known(void **state)
{
  (void)state;
  worker_process process;
  start_shell(&process, "echo for the log; echo why >&2; exit 3");
  expect_end(&process, "it exited with status 3; it last printed: why");
  start_shell(&process, "kill -SEGV $$");
  expect_end(&process, "it was ended by signal SIGSEGV");
  start_shell(&process, "kill -STOP $$");
  assert_null(worker_process_reap(&process)); // it has not
  worker_process_kill(&process, PROCESS_KILLED);
  worker_process_kill(&process, PROCESS_CUT_OFF); // the first reason is kept
  expect_end(&process, "it was ended by the server");
  start_shell(&process, "kill -STOP $$");
  worker_process_kill(&process, PROCESS_CUT_OFF);
  expect_end(&process, "it let go of its connection to the server, as by os.exec, and was ended");
}

static void a_program_that_cannot_be_started_is_named_with_the_reason(void **state)
{
  (void)state;
  worker_process process;
  expect_error(start_program(&process, "/absent/launcher", ""),
               "cannot start a Python worker by '/absent/launcher': No such file or directory (it "
               "belongs beside the backend's library)");
  assert_int_equal(process.state, PROCESS_NONE);
  expect_error(start_program(&process, "/etc/passwd", ""),
               "the server's user must be permitted to execute it");
}

// ---- placement

static void *move(void *argument)
{
  worker_placement here, *there = argument, unknown = {.known = false};
  worker_placement_get(&here);
  assert_true(here.known);
  assert_true(worker_placement_equal(&here, &unknown));
  assert_int_equal(worker_placement_enter(&unknown), 0);
  *there = here;
  for (int core = 0, seen = 0; core < CPU_SETSIZE; core++) // all but the first
    if (CPU_ISSET(core, &here.cores) && seen++ > 0)
      CPU_CLR(core, &there->cores);
  assert_int_equal(worker_placement_enter(there), 0);
  worker_placement_get(&here);
  assert_true(worker_placement_equal(&here, there));
  assert_int_equal(CPU_COUNT(&here.cores), 1);
  CPU_ZERO(&there->cores);
  assert_false(worker_placement_equal(&here, there));
  assert_int_equal(worker_placement_enter(there), EINVAL);
  return NULL;
}

static void a_thread_goes_where_it_is_to_be(void **state)
{
  (void)state;
  worker_placement before, after, there;
  pthread_t thread;
  worker_placement_get(&before);
  assert_int_equal(pthread_create(&thread, NULL, move, &there), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  worker_placement_get(&after);
  assert_true(worker_placement_equal(&before, &after));
}

// ---- sandbox

static TRITONSERVER_Error *init(worker_sandbox *sandbox, const char *key, const char *value)
{
  json_t *settings = key == NULL ? json_object() : json_pack("{ss}", key, value);
  TRITONSERVER_Error *error = worker_sandbox_init(sandbox, settings);
  json_decref(settings);
  return error;
}

// The command line for /bin/sh as the interpreter, with a blank between arguments.
static char *command_of(const worker_sandbox *sandbox)
{
  const worker_paths paths = {.backend = "/backend", .model = "/usr", .model_file = "/etc/passwd"};
  const python_interpreter python = {.path = (char[]){"/bin/sh"}};
  char **command, *text = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&text, &size);
  assert_null(worker_command_new(sandbox, &paths, &python, &command));
  for (char **argument = command; *argument != NULL; argument++)
    fprintf(file, "%s ", *argument);
  fclose(file);
  text_vector_free(command);
  return text;
}

static void expect_part(const char *text, const char *part)
{
  if (strstr(text, part) == NULL)
    fail_msg("'%s' lacks '%s'", text, part);
}

static void the_command_line_says_what_the_settings_say(void **state)
{
  (void)state;
  worker_sandbox sandbox;
  char expected[256];
  assert_null(init(&sandbox, NULL, NULL));
  char *command = command_of(&sandbox);
  snprintf(expected, sizeof expected,
           "/backend/nereid-worker-launcher --sandbox=standard --parent=%d -- /bin/sh "
           "/backend/worker ",
           (int)getpid());
  assert_string_equal(command, expected); // no bound but the server's
  free(command);
  assert_null(init(&sandbox, "worker-memory-bytes", "67108864"));
  command = command_of(&sandbox);
  expect_part(command, " --memory=67108864 -- ");
  free(command);
  assert_null(init(&sandbox, "worker-sandbox", "strict"));
  command = command_of(&sandbox);
  expect_part(command, "--sandbox=strict");
  expect_part(command, " --processes=8192 ");
  expect_part(command, " --scratch=1073741824 ");
  expect_part(command, " --read=/usr --read=/etc --read=/etc "); // where the file is, and leads
  expect_part(command, " --read=/backend/worker ");
  free(command);
  assert_null(init(&sandbox, "worker-read-paths", "/a:/b c"));
  sandbox.strict = true;
  command = command_of(&sandbox);
  expect_part(command, " --read=/a --read=/b c ");
  free(command);
  worker_sandbox_fini(&sandbox);
}

static void settings_that_cannot_be_are_named(void **state)
{
  (void)state;
  worker_sandbox sandbox;
  expect_error(init(&sandbox, "worker-sandbox", "loose"),
               "setting worker-sandbox: 'loose' is neither standard nor strict");
  expect_error(init(&sandbox, "worker-processes", "15"), "worker-processes");
  expect_error(init(&sandbox, "worker-read-paths", "/a:b"), "is no list of absolute paths");
  assert_true(worker_sandbox_has_setting("worker-scratch-bytes"));
  assert_true(worker_sandbox_has_setting("worker-sandbox"));
  assert_false(worker_sandbox_has_setting("worker"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pipe_is_cut_into_lines),
      cmocka_unit_test(a_process_has_its_four_descriptors_and_its_environment),
      cmocka_unit_test(how_a_process_ended_is_known),
      cmocka_unit_test(a_program_that_cannot_be_started_is_named_with_the_reason),
      cmocka_unit_test(a_thread_goes_where_it_is_to_be),
      cmocka_unit_test(the_command_line_says_what_the_settings_say),
      cmocka_unit_test(settings_that_cannot_be_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
