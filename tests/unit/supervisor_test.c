// What the supervisor does with processes that end, that let go of their connection, and that it
// cannot watch. The processes are played: an open pipe stands for one that lives.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "process/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  PLAYED = 2
};

// ---- what is played

static int lives[PLAYED][2]; // process `id`'s; it is readable when the process has ended
static atomic_bool refuses;  // to watch more
static atomic_uint killed[PLAYED], reaped[PLAYED], looks[PLAYED], told[PLAYED], closed_outputs;
static _Atomic process_state reason; // why the last one was killed
static pid_t next;

// In place of the C library's, by which the supervisor watches.
int epoll_ctl(int set, int operation, int descriptor, struct epoll_event *event)
{
  if (operation == EPOLL_CTL_ADD && refuses && descriptor == lives[next - 1][0]) {
    errno = ENOSPC;
    return -1;
  }
  return (int)syscall(SYS_epoll_ctl, set, operation, descriptor, event);
}

TRITONSERVER_Error *worker_process_start(worker_process *self, const worker_command *command)
{
  *self = (worker_process){.state = PROCESS_RUNNING, .id = next, .handle = lives[next][0]};
  for (int i = 0; i < 2; i++)
    self->output[i] = (worker_output){.descriptor = dup(command->socket)};
  next++;
  return NULL;
}

void worker_process_kill(worker_process *self, process_state why)
{
  self->state = why;
  reason = why;
  atomic_fetch_add(&killed[self->id], 1);
}

char *worker_process_reap(worker_process *self)
{
  char byte;
  pid_t id = self->id;
  atomic_fetch_add(&looks[id], 1);
  if (read(lives[id][0], &byte, 1) != 1)
    return NULL;
  self->state = PROCESS_ENDED;
  atomic_fetch_add(&reaped[id], 1);
  worker_output_fini(&self->output[0]);
  worker_output_fini(&self->output[1]);
  return strdup("it ended");
}

bool worker_output_read(worker_output *self)
{
  return self->descriptor >= 0;
}

void worker_output_drain(worker_output *self)
{
  (void)self;
}

void worker_output_fini(worker_output *self)
{
  if (self->descriptor >= 0) {
    close(self->descriptor);
    atomic_fetch_add(&closed_outputs, 1);
  }
  self->descriptor = -1;
}

// ---- the test's own

static void has_ended(void *user, char *cause)
{
  atomic_fetch_add(&told[*(const int *)user], 1);
  free(cause);
}

static void is_quiet(void *user)
{
  (void)user;
}

static void end(int id)
{
  assert_int_equal(write(lives[id][1], "x", 1), 1);
}

static void await(const atomic_uint *count, unsigned least)
{
  for (int i = 0; i < 10000 && *count < least; i++)
    usleep(1000);
  assert_true(*count >= least);
}

typedef struct played {
  supervisor *made;
  int quiet[2]; // where nobody says anything
} played;

static const supervised_events EVENTS = {.ended = has_ended, .quiet = is_quiet};
static char *const NONE[] = {NULL};

static int set_up(void **state)
{
  played *self = calloc(1, sizeof *self);
  next = 0;
  refuses = false;
  closed_outputs = 0;
  for (int i = 0; i < PLAYED; i++) {
    killed[i] = reaped[i] = looks[i] = told[i] = 0;
    assert_int_equal(pipe2(lives[i], O_NONBLOCK), 0);
  }
  assert_int_equal(pipe(self->quiet), 0);
  assert_null(supervisor_new(&self->made));
  *state = self;
  return 0;
}

// What it started must have ended.
static int tear_down(void **state)
{
  played *self = *state;
  for (int i = 0; i < PLAYED; i++)
    for (int k = 0; k < 2; k++)
      close(lives[i][k]);
  close(self->quiet[0]);
  close(self->quiet[1]);
  free(self);
  return 0;
}

static TRITONSERVER_Error *start(const played *self, int connection, supervised **process)
{
  static int users[PLAYED] = {0, 1};
  const worker_command command = {.arguments = NONE, .environment = NONE, .socket = self->quiet[0]};
  return supervisor_start(self->made, &command, connection, &EVENTS, &users[next], process);
}

static void a_process_that_cannot_be_watched_keeps_nobody_waiting(void **state)
{
  const played *self = *state;
  supervised *watched, *unwatched = NULL;
  int other_end = dup(self->quiet[1]);
  assert_null(start(self, self->quiet[1], &watched));
  refuses = true;
  TRITONSERVER_Error *error = start(self, other_end, &unwatched);
  assert_non_null(error); // and at once, though the process lives
  assert_non_null(strstr(TRITONSERVER_ErrorMessage(error), "cannot watch a Python worker"));
  assert_non_null(strstr(TRITONSERVER_ErrorMessage(error), strerror(ENOSPC)));
  TRITONSERVER_ErrorDelete(error);
  assert_null(unwatched);
  assert_int_equal(killed[1], 1);
  assert_int_equal(closed_outputs, 2); // nobody hears what it says
  end(0);                              // others are seen to meanwhile
  await(&told[0], 1);
  await(&looks[1], 3);
  assert_int_equal(reaped[1], 0);
  end(1);
  await(&reaped[1], 1);
  supervised_release(watched);
  supervisor_free(self->made);
  assert_int_equal(told[0], 1);
  assert_int_equal(told[1], 0); // who started it has the error
  assert_int_equal(reaped[1], 1);
  close(other_end);
}

static void a_process_that_lets_go_of_its_connection_is_ended(void **state)
{
  const played *self = *state;
  supervised *process;
  int connection[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, connection), 0);
  assert_null(start(self, connection[0], &process));
  close(connection[1]);
  await(&killed[0], 1);
  assert_int_equal(reason, PROCESS_CUT_OFF);
  assert_int_equal(told[0], 0); // it lives until it has ended
  end(0);
  await(&told[0], 1);
  supervised_kill(process); // too late: the number may be another's
  assert_int_equal(killed[0], 1);
  supervised_release(process);
  supervisor_free(self->made);
  close(connection[0]);
}

static void a_process_is_killed_for_who_has_its_handle(void **state)
{
  const played *self = *state;
  supervised *process;
  assert_null(start(self, self->quiet[1], &process));
  supervised_kill(process);
  assert_int_equal(killed[0], 1);
  assert_int_equal(reason, PROCESS_KILLED);
  supervised_release(process); // it goes on
  end(0);
  await(&told[0], 1);
  supervisor_free(self->made);
  assert_int_equal(reaped[0], 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_process_that_cannot_be_watched_keeps_nobody_waiting),
      TEST(a_process_that_lets_go_of_its_connection_is_ended),
      TEST(a_process_is_killed_for_who_has_its_handle),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
