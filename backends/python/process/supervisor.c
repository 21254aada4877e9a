// One thread with an epoll set: orders, output, ends, and the quiet timer. Others hand it
// orders and wait.
#include "process/supervisor.h"

#include "backend_error.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/list.h"
#include "base/refcount.h"
#include "base/thread.h"
#include "base/wakeup.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>

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
  int connection;       // the owner's
  list_node node;       // in one of the supervisor's lists
  refcount references;  // the supervisor's and the starter's
  pthread_mutex_t lock; // guards process.state, so that nobody kills what is reaped
};

// A start that is asked for.
typedef struct start_order {
  worker_command command;
  supervised *process;
  TRITONSERVER_Error *error;
  bool done;
  list_node node;
} start_order;

struct supervisor {
  pthread_t thread;
  int epoll;
  int wakeup;
  atomic_int quiet;     // quiet_state
  list processes;       // the thread's own, like the next
  list unwatched;       // killed, and reaped from time to time
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t done;
  list orders;
  bool stopping;
};

void supervised_release(supervised *process)
{
  if (process == NULL || !refcount_drop(&process->references))
    return;
  assert(process->process.state == PROCESS_ENDED || process->process.state == PROCESS_NONE);
  pthread_mutex_destroy(&process->lock);
  free(process);
}

void supervised_kill(supervised *process)
{
  LOCK_SCOPE(&process->lock);
  if (process->process.state != PROCESS_ENDED)
    worker_process_kill(&process->process, PROCESS_KILLED);
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
  worker_process_kill(started, PROCESS_KILLED);
  worker_output_fini(&started->output[0]);
  worker_output_fini(&started->output[1]);
  return error;
}

static TRITONSERVER_Error *start(supervisor *self, const start_order *order)
{
  supervised *process = order->process;
  BACKEND_RETURN_IF_ERROR(worker_process_start(&process->process, &order->command));
  TRITONSERVER_Error *error = start_watching(self, process);
  refcount_take(&process->references);
  list_prepend(error == NULL ? &self->processes : &self->unwatched, &process->node);
  return error;
}

static bool take_orders(supervisor *self)
{
  pthread_mutex_lock(&self->lock);
  list_node *node;
  while ((node = list_take_first(&self->orders)) != NULL) {
    start_order *order = container_of(node, start_order, node);
    pthread_mutex_unlock(&self->lock);
    order->error = start(self, order);
    pthread_mutex_lock(&self->lock);
    order->done = true;
    pthread_cond_broadcast(&self->done);
  }
  bool stopping = self->stopping;
  pthread_mutex_unlock(&self->lock);
  return !stopping;
}

// Its guard may take some seconds to end all that it has started.
static void reap_unwatched(supervisor *self)
{
  list_foreach_safe (supervised, process, node, &self->unwatched) {
    char *cause = worker_process_reap(&process->process);
    if (cause == NULL)
      continue;
    free(cause);
    list_remove(&process->node);
    supervised_release(process);
  }
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

// Looks at a process of which a descriptor is ready. Without its connection it has become another
// program, or is on its way to its end, as its guard can tell.
static void look_at(supervisor *self, supervised *process, uint32_t events)
{
  read_output(self, process);
  pthread_mutex_lock(&process->lock);
  char *cause = worker_process_reap(&process->process);
  if (cause == NULL && (events & EPOLLRDHUP) != 0) {
    unwatch(self, process->connection);
    worker_process_kill(&process->process, PROCESS_CUT_OFF);
  }
  pthread_mutex_unlock(&process->lock);
  if (cause == NULL)
    return;
  unwatch(self, process->connection);
  list_remove(&process->node);
  process->events->ended(process->user, cause);
  supervised_release(process);
}

// Several events of a round may name a process that ends with the first.
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
      wakeup_take(self->wakeup);
    } else if (whom != NULL) {
      drop_from(events, i + 1, count, whom);
      look_at(self, whom, events[i].events);
    }
  }
}

static void tick(supervisor *self)
{
  int touched = QUIET_TOUCHED, armed = QUIET_ARMED;
  if (atomic_compare_exchange_strong(&self->quiet, &touched, QUIET_ARMED) ||
      !atomic_compare_exchange_strong(&self->quiet, &armed, QUIET_OFF))
    return;
  list_foreach (supervised, process, node, &self->processes)
    process->events->quiet(process->user);
}

static uint64_t now_ms(void)
{
  return clock_monotonic_ns() / 1000000;
}

static void *run(void *argument)
{
  supervisor *self = argument;
  struct epoll_event events[MAX_EVENTS];
  uint64_t next_tick = 0;
  while (take_orders(self) || !list_is_empty(&self->unwatched)) {
    reap_unwatched(self);
    int timeout = list_is_empty(&self->unwatched) ? -1 : REAP_MS;
    if (atomic_load(&self->quiet) != QUIET_OFF) {
      uint64_t now = now_ms();
      next_tick = next_tick == 0 ? now + QUIET_MS : next_tick;
      int rest = next_tick > now ? (int)(next_tick - now) : 0;
      timeout = timeout < 0 || rest < timeout ? rest : timeout;
    }
    int count = epoll_wait(self->epoll, events, MAX_EVENTS, timeout);
    dispatch(self, events, count);
    if (next_tick != 0 && now_ms() >= next_tick) {
      next_tick = 0;
      tick(self);
    }
  }
  assert(list_is_empty(&self->processes));
  return NULL;
}

// ---- from outside

void supervisor_touch(supervisor *self)
{
  if (atomic_load_explicit(&self->quiet, memory_order_relaxed) == QUIET_TOUCHED)
    return;
  if (atomic_exchange(&self->quiet, QUIET_TOUCHED) == QUIET_OFF)
    wakeup_signal(self->wakeup);
}

TRITONSERVER_Error *supervisor_start(supervisor *self, const worker_command *command,
                                     int connection, const supervised_events *events, void *user,
                                     supervised **started)
{
  start_order order = {.command = *command, .process = calloc(1, sizeof *order.process)};
  if (order.process == NULL)
    return backend_error_no_memory("a Python worker");
  order.command.take_line = events->line;
  order.command.user = user;
  *order.process = (supervised){.events = events, .user = user, .connection = connection};
  refcount_init(&order.process->references);
  pthread_mutex_init(&order.process->lock, NULL);
  pthread_mutex_lock(&self->lock);
  assert(!self->stopping);
  list_append(&self->orders, &order.node);
  wakeup_signal(self->wakeup);
  while (!order.done)
    pthread_cond_wait(&self->done, &self->lock);
  pthread_mutex_unlock(&self->lock);
  if (order.error != NULL)
    supervised_release(order.process);
  else
    *started = order.process;
  return order.error;
}

static void free_parts(supervisor *self)
{
  cleanup_close(&self->epoll);
  cleanup_close(&self->wakeup);
  pthread_cond_destroy(&self->done);
  pthread_mutex_destroy(&self->lock);
  free(self);
}

TRITONSERVER_Error *supervisor_new(supervisor **made)
{
  supervisor *self = calloc(1, sizeof *self);
  if (self == NULL)
    return backend_error_no_memory("the Python workers' supervisor");
  list_init(&self->processes);
  list_init(&self->unwatched);
  list_init(&self->orders);
  pthread_mutex_init(&self->lock, NULL);
  pthread_cond_init(&self->done, NULL);
  self->epoll = epoll_create1(EPOLL_CLOEXEC);
  self->wakeup = wakeup_new();
  bool watched = self->epoll >= 0 && self->wakeup >= 0 && watch(self, self->wakeup, EPOLLIN, self);
  int failure = watched ? thread_create(&self->thread, "py supervisor", run, self) : errno;
  if (failure == 0) {
    *made = self;
    return NULL;
  }
  free_parts(self);
  return backend_error(TRITONSERVER_ERROR_UNAVAILABLE,
                       watched ? "cannot start a thread: %s" : "cannot watch Python workers: %s",
                       strerror(failure));
}

void supervisor_free(supervisor *self)
{
  if (self == NULL)
    return;
  pthread_mutex_lock(&self->lock);
  self->stopping = true;
  pthread_mutex_unlock(&self->lock);
  wakeup_signal(self->wakeup);
  pthread_join(self->thread, NULL);
  free_parts(self);
}
