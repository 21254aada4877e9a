// SPDX-License-Identifier: Apache-2.0
#include "listener.h"

#include "../fuzz.h"
#include "base/clock.h"
#include "base/thread.h"
#include "frontend/common/policy/access_policy.h"
#include "frontend/common/tensor/infer_tensors.h"
#include "frontend/grpc/call/call_parts.h"
#include "frontend/grpc/call/call_server.h"
#include "frontend/grpc/service/methods.h"
#include "frontend/grpc/transport/connection.h"
#include "frontend/grpc/transport/loop.h"
#include "frontend/grpc/transport/session.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_NS UINT64_C(1000000)

static grpc_server server;
static grpc_loop *loop;
static list queued_jobs = {{&queued_jobs.ends, &queued_jobs.ends}};
static const access_policy open_to_all;

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  mpsc all; // streams
} woken = {.mutex = PTHREAD_MUTEX_INITIALIZER};

// ---- what the listener is asked ----

error *jobs_submit(jobs *pool, job_kind kind, job *added)
{
  (void)pool;
  (void)kind;
  list_append(&queued_jobs, &added->node);
  return NULL;
}

void grpc_loop_record_large(grpc_loop *l)
{
  (void)l;
}

void grpc_loop_mark(grpc_loop *l, grpc_connection *c)
{
  if (!list_is_linked(&c->marked) && !connection_is_closed(c))
    list_prepend(&l->marked, &c->marked);
}

bool grpc_loop_watch(grpc_loop *l, grpc_connection *c, bool for_output)
{
  (void)l;
  c->watches_output = for_output;
  return true;
}

void grpc_loop_forget(grpc_loop *l, grpc_connection *c)
{
  list_remove(&c->node);
  list_prepend(&l->forgotten, &c->node);
  if (list_is_linked(&c->marked))
    list_remove(&c->marked);
  atomic_fetch_add(&l->closed, 1);
  drain_count_down(&server.listener.drain, &l->all->connections);
}

void grpc_loop_freed(grpc_loop *l)
{
  CHECK(atomic_fetch_sub(&l->closed, 1) > 0);
}

void grpc_loop_wake_stream(grpc_loop *l, grpc_stream *stream)
{
  (void)l;
  pthread_mutex_lock(&woken.mutex);
  mpsc_push(&woken.all, &stream->woken);
  pthread_cond_signal(&woken.changed);
  pthread_mutex_unlock(&woken.mutex);
}

// ---- a pass ----

static void run_woken(void)
{
  mpsc_node *next;
  for (mpsc_node *node = mpsc_take_all(&woken.all); node != NULL; node = next) {
    next = node->next;
    server.loops->handlers->woken(container_of(node, grpc_stream, woken));
  }
}

static void look_at_socket(grpc_connection *c)
{
  struct pollfd about = {.fd = c->wire.fd,
                         .events = (short)(POLLIN | (c->watches_output ? POLLOUT : 0))};
  if (poll(&about, 1, 0) <= 0)
    return;
  if ((about.revents & POLLOUT) != 0)
    grpc_connection_writable(c);
  if (!connection_is_closed(c) && (about.revents & (POLLIN | POLLHUP | POLLERR)) != 0)
    grpc_connection_readable(c);
}

void listener_pass(void)
{
  list_foreach_safe (grpc_connection, c, node, &loop->connections)
    look_at_socket(c);
  run_woken();
  conn_timers_run(&loop->timers, loop->now_ns);
  list_node *node;
  while ((node = list_take_first(&loop->marked)) != NULL)
    grpc_connection_flush(container_of(node, grpc_connection, marked));
  while ((node = list_take_first(&loop->forgotten)) != NULL)
    grpc_connection_unref(container_of(node, grpc_connection, node));
}

// ---- what the program does ----

static void prepare(void)
{
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&woken.changed, &attributes);
  pthread_condattr_destroy(&attributes);
  CHECK(infer_tensors_make_allocator(&server.listener.allocator) == NULL);
  refcount_init(&server.listener.references);
  drain_init(&server.listener.drain);
  server.find_method = methods_find;
  grpc_loops *all = server.loops = calloc(1, sizeof(*all) + sizeof(*loop));
  CHECK(all != NULL);
  CHECK(session_make_shared(&all->callbacks, &all->session_options) == NULL);
  all->listener = &server.listener;
  all->handlers = &call_stream_handlers;
  all->group.last_logged_ns = clock_monotonic_ns(); // the log is nobody's business here
  loop = all->loops;
  loop->all = all;
  loop->core.group = &all->group;
  list_init(&loop->connections);
  list_init(&loop->marked);
  list_init(&loop->forgotten);
  loop->now_ns = clock_monotonic_ns();
}

void listener_begin(const listener_options *options, size_t budget, TRITONSERVER_Server *core)
{
  if (server.loops == NULL)
    prepare();
  server.listener.options = *options;
  if (options->access == NULL)
    server.listener.options.access = &open_to_all;
  server.listener.budget.limit = budget;
  server.listener.server = core;
}

int listener_connect(void)
{
  int ends[2];
  struct sockaddr_storage address = {0};
  struct sockaddr_in *local = (struct sockaddr_in *)&address;
  local->sin_family = AF_INET;
  local->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  atomic_fetch_add(&server.loops->connections, 1);
  grpc_connection *c = grpc_connection_open(loop, ends[0], &address);
  CHECK(c != NULL);
  list_prepend(&loop->connections, &c->node);
  grpc_loop_mark(loop, c);
  return ends[1];
}

void listener_advance(uint64_t ns)
{
  loop->now_ns += ns;
}

bool listener_run_job(void)
{
  job *next = container_of(list_take_first(&queued_jobs), job, node);
  if (next == NULL)
    return false;
  next->run(next);
  return true;
}

void listener_leave(void)
{
  list_foreach_safe (grpc_connection, c, node, &loop->connections)
    grpc_connection_leave(c);
}

void listener_wait(void)
{
  struct timespec deadline = clock_timespec(clock_monotonic_ns() + WAIT_NS);
  pthread_mutex_lock(&woken.mutex);
  if (mpsc_is_empty(&woken.all))
    pthread_cond_timedwait(&woken.changed, &woken.mutex, &deadline);
  pthread_mutex_unlock(&woken.mutex);
}

bool listener_is_idle(void)
{
  return list_is_empty(&loop->connections) && atomic_load(&server.listener.busy) == 0 &&
         list_is_empty(&queued_jobs);
}

void listener_end(void)
{
  CHECK(listener_is_idle());
  CHECK(atomic_load(&server.loops->connections) == 0 && atomic_load(&loop->closed) == 0);
  CHECK(loop->core.in_flight == 0 && list_is_empty(&loop->marked) && mpsc_is_empty(&woken.all));
  CHECK(conn_timers_next(&loop->timers) == UINT64_MAX);
  CHECK(atomic_load(&server.listener.budget.used) == 0);
}
