// One thread with an epoll set: orders, output, ends, and the quiet timer. Others hand it
// orders and wait.
#include "process/supervisor.h"

#include "backend_batch.h"
#include "backend_error.h"
#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
  QUIET_MS = 1000,
  REAP_MS = 20, // between looks at processes that could not be watched
  MAX_EVENTS = 64
};

// What the quiet timer does: off until something is touched, then each interval goes from TOUCHED
// to ARMED, and from ARMED to OFF with the calls of `quiet`.
enum quiet_state {
  QUIET_OFF,
  QUIET_ARMED,
  QUIET_TOUCHED
};

struct supervised {
  worker_process process;
  const supervised_events *events;
  void *user;
  int connection;          // the owner's
  struct supervised *next; // the supervisor's list
  atomic_uint references;  // the supervisor's and the starter's
  pthread_mutex_t lock;    // guards `ended`, so that nobody kills what is reaped
  bool ended;
};

// A start that is asked for.
typedef struct start_order {
  worker_command command;
  supervised *process;
  TRITONSERVER_Error *error;
  bool done;
  struct start_order *next;
} start_order;

struct supervisor {
  pthread_t thread;
  int epoll;
  int wakeup; // eventfd
  atomic_int quiet;
  supervised *processes; // the thread's own, like the next
  supervised *unwatched; // killed, and reaped from time to time
  pthread_mutex_t lock;  // guards what follows
  pthread_cond_t done;
  start_order *orders;
  bool stopping;
};

static void wake(supervisor *self)
{
  uint64_t one = 1;
  while (write(self->wakeup, &one, sizeof one) < 0 && errno == EINTR)
    ;
}

void supervised_release(supervised *process)
{
  if (process == NULL ||
      atomic_fetch_sub_explicit(&process->references, 1, memory_order_acq_rel) != 1)
    return;
  assert(process->ended || process->process.handle < 0);
  pthread_mutex_destroy(&process->lock);
  free(process);
}

void supervised_kill(supervised *process)
{
  pthread_mutex_lock(&process->lock);
  if (!process->ended)
    worker_process_kill(&process->process);
  pthread_mutex_unlock(&process->lock);
}

// ---- on the thread

static bool watch(const supervisor *self, int descriptor, uint32_t events, void *whom)
{
  struct epoll_event event = {.events = events, .data.ptr = whom};
  return epoll_ctl(self->epoll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

static void unwatch(const supervisor *self, int descriptor)
{
  if (descriptor >= 0)
    epoll_ctl(self->epoll, EPOLL_CTL_DEL, descriptor, NULL);
}

static void stop_watching(const supervisor *self, const supervised *process)
{
  unwatch(self, process->connection);
  unwatch(self, process->process.handle);
  unwatch(self, process->process.output[0].descriptor);
  unwatch(self, process->process.output[1].descriptor);
}

// What cannot be watched is not left running. Nobody is told of it any more.
static TRITONSERVER_Error *start_watching(supervisor *self, supervised *process)
{
  worker_process *started = &process->process;
  if (watch(self, started->output[0].descriptor, EPOLLIN, process) &&
      watch(self, started->output[1].descriptor, EPOLLIN, process) &&
      watch(self, process->connection, EPOLLRDHUP, process) &&
      watch(self, started->handle, EPOLLIN, process))
    return NULL;
  TRITONSERVER_Error *error = backend_error(TRITONSERVER_ERROR_UNAVAILABLE,
                                            "cannot watch a Python worker: %s", strerror(errno));
  stop_watching(self, process);
  worker_process_kill(started);
  worker_output_fini(&started->output[0]);
  worker_output_fini(&started->output[1]);
  atomic_fetch_add_explicit(&process->references, 1, memory_order_relaxed);
  process->next = self->unwatched;
  self->unwatched = process;
  return error;
}

// Its guard may take some seconds to end all that it has started.
static void reap_unwatched(supervisor *self)
{
  supervised **at = &self->unwatched;
  while (*at != NULL) {
    supervised *process = *at;
    char *cause = worker_process_reap(&process->process);
    if (cause == NULL) {
      at = &process->next;
      continue;
    }
    free(cause);
    *at = process->next;
    process->ended = true;
    supervised_release(process);
  }
}

static void carry_out(supervisor *self, start_order *order)
{
  supervised *process = order->process;
  order->error = worker_process_start(&process->process, &order->command);
  if (order->error == NULL)
    order->error = start_watching(self, process);
  if (order->error != NULL)
    return;
  atomic_fetch_add_explicit(&process->references, 1, memory_order_relaxed);
  process->next = self->processes;
  self->processes = process;
}

static bool take_orders(supervisor *self)
{
  pthread_mutex_lock(&self->lock);
  start_order *order;
  while ((order = self->orders) != NULL) {
    self->orders = order->next;
    pthread_mutex_unlock(&self->lock);
    carry_out(self, order);
    pthread_mutex_lock(&self->lock);
    order->done = true;
    pthread_cond_broadcast(&self->done);
  }
  bool stopping = self->stopping;
  pthread_mutex_unlock(&self->lock);
  return !stopping;
}

static void forget(supervisor *self, const supervised *process)
{
  supervised **at = &self->processes;
  while (*at != process) {
    assert(*at != NULL);
    at = &(*at)->next;
  }
  *at = process->next;
}

static void read_output(const supervisor *self, supervised *process)
{
  for (int i = 0; i < 2; i++) {
    worker_output *output = &process->process.output[i];
    if (output->descriptor >= 0 && !worker_output_read(output)) {
      unwatch(self, output->descriptor);
      worker_output_drain(output);
      close(output->descriptor);
      output->descriptor = -1;
    }
  }
}

// It has become another program, or is on its way to its end, as its guard can tell.
static void cut_off_locked(const supervisor *self, supervised *process)
{
  unwatch(self, process->connection);
  process->process.cut_off = !process->process.kill_sent;
  worker_process_kill(&process->process);
}

// Looks at a process of which a descriptor is ready. Other events of the same round may name it
// too, so its memory goes later: see dispatch.
static bool has_ended(supervisor *self, supervised *process, uint32_t events)
{
  read_output(self, process);
  pthread_mutex_lock(&process->lock);
  char *cause = worker_process_reap(&process->process);
  process->ended = cause != NULL;
  if (cause == NULL && (events & EPOLLRDHUP) != 0)
    cut_off_locked(self, process);
  pthread_mutex_unlock(&process->lock);
  if (cause == NULL)
    return false;
  unwatch(self, process->connection);
  forget(self, process);
  process->events->ended(process->user, cause);
  return true;
}

static void drop_from(struct epoll_event *events, int from, int count, const supervised *process)
{
  for (int i = from; i < count; i++)
    if (events[i].data.ptr == process)
      events[i].data.ptr = NULL;
}

static void dispatch(supervisor *self, struct epoll_event *events, int count)
{
  for (int i = 0; i < count; i++) {
    void *whom = events[i].data.ptr;
    if (whom == self) {
      uint64_t ignored;
      (void)!read(self->wakeup, &ignored, sizeof ignored);
    } else if (whom != NULL) {
      supervised *process = whom;
      drop_from(events, i + 1, count, process);
      if (has_ended(self, process, events[i].events))
        supervised_release(process);
    }
  }
}

static void tick(supervisor *self)
{
  int touched = QUIET_TOUCHED, armed = QUIET_ARMED;
  if (atomic_compare_exchange_strong(&self->quiet, &touched, QUIET_ARMED) ||
      !atomic_compare_exchange_strong(&self->quiet, &armed, QUIET_OFF))
    return;
  for (supervised *process = self->processes; process != NULL; process = process->next)
    process->events->quiet(process->user);
}

static void *run(void *argument)
{
  supervisor *self = argument;
  struct epoll_event events[MAX_EVENTS];
  uint64_t next_tick = 0;
  while (take_orders(self) || self->unwatched != NULL) {
    reap_unwatched(self);
    int timeout = self->unwatched == NULL ? -1 : REAP_MS;
    if (atomic_load(&self->quiet) != QUIET_OFF) {
      uint64_t now = backend_now_ns() / 1000000;
      next_tick = next_tick == 0 ? now + QUIET_MS : next_tick;
      int rest = next_tick > now ? (int)(next_tick - now) : 0;
      timeout = timeout < 0 || rest < timeout ? rest : timeout;
    }
    int count = epoll_wait(self->epoll, events, MAX_EVENTS, timeout);
    dispatch(self, events, count);
    if (next_tick != 0 && backend_now_ns() / 1000000 >= next_tick) {
      next_tick = 0;
      tick(self);
    }
  }
  assert(self->processes == NULL);
  return NULL;
}

// ---- from outside

void supervisor_touch(supervisor *self)
{
  if (atomic_load_explicit(&self->quiet, memory_order_relaxed) == QUIET_TOUCHED)
    return;
  if (atomic_exchange(&self->quiet, QUIET_TOUCHED) == QUIET_OFF)
    wake(self);
}

static supervised *new_process(const supervised_events *events, void *user)
{
  supervised *process = calloc(1, sizeof *process);
  if (process == NULL)
    return NULL;
  process->events = events;
  process->user = user;
  atomic_init(&process->references, 1);
  pthread_mutex_init(&process->lock, NULL);
  return process;
}

TRITONSERVER_Error *supervisor_start(supervisor *self, const worker_command *command,
                                     int connection, const supervised_events *events, void *user,
                                     supervised **started)
{
  start_order order = {.command = *command, .process = new_process(events, user)};
  order.command.take_line = events->line;
  order.command.user = user;
  if (order.process == NULL)
    return backend_error_no_memory("a Python worker");
  order.process->connection = connection;
  pthread_mutex_lock(&self->lock);
  order.next = self->orders;
  self->orders = &order;
  wake(self);
  while (!order.done)
    pthread_cond_wait(&self->done, &self->lock);
  pthread_mutex_unlock(&self->lock);
  if (order.error != NULL)
    supervised_release(order.process);
  else
    *started = order.process;
  return order.error;
}

static TRITONSERVER_Error *open_descriptors(supervisor *self)
{
  self->epoll = epoll_create1(EPOLL_CLOEXEC);
  self->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (self->epoll >= 0 && self->wakeup >= 0 && watch(self, self->wakeup, EPOLLIN, self))
    return NULL;
  return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "cannot watch Python workers: %s",
                       strerror(errno));
}

static void free_parts(supervisor *self)
{
  if (self->epoll >= 0)
    close(self->epoll);
  if (self->wakeup >= 0)
    close(self->wakeup);
  pthread_cond_destroy(&self->done);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

TRITONSERVER_Error *supervisor_new(supervisor **made)
{
  supervisor *self = calloc(1, sizeof *self);
  if (self == NULL)
    return backend_error_no_memory("the Python workers' supervisor");
  self->epoll = self->wakeup = -1;
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->done, NULL);
  TRITONSERVER_Error *error = open_descriptors(self);
  int failure = error != NULL ? 0 : thread_create(&self->thread, "py supervisor", run, self);
  if (failure != 0)
    error = backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "cannot start a thread: %s",
                          strerror(failure));
  if (error != NULL) {
    free_parts(self);
    return error;
  }
  *made = self;
  return NULL;
}

void supervisor_free(supervisor *self)
{
  if (self == NULL)
    return;
  pthread_mutex_lock(&self->lock);
  self->stopping = true;
  pthread_mutex_unlock(&self->lock);
  wake(self);
  pthread_join(self->thread, NULL);
  free_parts(self);
}
