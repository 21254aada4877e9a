// SPDX-License-Identifier: Apache-2.0
// Sleeping, waking, and sockets on their way to a loop. See loop_core.h.
#include "frontend/common/net/loop_core.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "frontend/common/observe/frontend_log.h"

#include <stdlib.h>
#include <unistd.h>

#define LOG_AGAIN_NS (60 * UINT64_C(1000000000))

static struct {
  pthread_mutex_t lock; // guards the list
  list loops;
} running = {.lock = PTHREAD_MUTEX_INITIALIZER,
             .loops = {.ends = {&running.loops.ends, &running.loops.ends}}};

void loop_group_init(loop_group *g, const char *protocol, const char *versions, unsigned count,
                     unsigned busy_poll_us)
{
  g->protocol = protocol;
  g->versions = versions;
  g->count = count;
  unsigned cpus = machine_cpus();
  // With one processor, polling would keep it from the thread that the loop waits for.
  g->poll_ns = cpus > 1 ? (uint64_t)busy_poll_us * 1000 : 0;
  g->max_awake = cpus / 2;
}

bool loop_may_log(_Atomic uint64_t *last_logged_ns)
{
  uint64_t now = clock_monotonic_ns();
  uint64_t before = atomic_load(last_logged_ns);
  bool due = before == 0 || now - before >= LOG_AGAIN_NS;
  return due && atomic_compare_exchange_strong(last_logged_ns, &before, now);
}

void loop_group_log_protocol(loop_group *g)
{
  if (loop_may_log(&g->last_logged_ns))
    frontend_log_warning(
        "a client of the %s port was refused, which takes %s: HTTP and gRPC have a "
        "port each",
        g->protocol, g->versions);
}

bool loop_core_open(loop_core *l, loop_group *g)
{
  l->group = g;
  atomic_init(&l->awake, true);
  l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  l->wake_fd = wakeup_new();
  // Edge-triggered, so nobody has to read it.
  struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = l};
  return l->epoll_fd >= 0 && l->wake_fd >= 0 &&
         epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &event) == 0;
}

error *loop_core_start(loop_core *l, const char *thread_name, void *(*run)(void *), void *argument)
{
  assert(!l->started);
  l->worked_ns = clock_monotonic_ns();
  RETURN_IF_ERROR(thread_start(&l->thread, thread_name, run, argument));
  l->started = true;
  pthread_mutex_lock(&running.lock);
  list_append(&running.loops, &l->node);
  pthread_mutex_unlock(&running.lock);
  atomic_fetch_add_explicit(&l->group->awake, 1, memory_order_relaxed);
  return NULL;
}

void loop_core_join(loop_core *l)
{
  if (!l->started)
    return;
  assert(atomic_load(&l->group->stopping));
  pthread_mutex_lock(&running.lock);
  list_remove(&l->node);
  pthread_mutex_unlock(&running.lock);
  loop_core_wake(l);
  pthread_join(l->thread, NULL);
  l->started = false;
}

void loop_core_fini(loop_core *l)
{
  assert(!l->started && mpsc_is_empty(&l->arrived));
  if (l->group == NULL)
    return; // zeroed
  if (l->epoll_fd >= 0)
    close(l->epoll_fd);
  if (l->wake_fd >= 0)
    close(l->wake_fd);
}

void loop_core_wake(loop_core *l)
{
  // Sequentially consistent with loop_core_sleep: either the loop sees `wanted`, or this thread
  // sees that it sleeps.
  atomic_store(&l->wanted, true);
  if (!atomic_exchange(&l->awake, true))
    wakeup_signal(l->wake_fd);
}

const char *loops_silent(void)
{
  const char *silent = NULL;
  LOCK_SCOPE(&running.lock);
  for (list_node *node = list_first(&running.loops); node != NULL;
       node = list_next(&running.loops, node)) {
    loop_core *l = container_of(node, loop_core, node);
    unsigned questions = atomic_load_explicit(&l->questions, memory_order_relaxed);
    if (atomic_load_explicit(&l->answers, memory_order_relaxed) != questions) {
      silent = l->group->protocol;
      continue; // the question stands
    }
    atomic_store_explicit(&l->questions, questions + 1, memory_order_relaxed);
    loop_core_wake(l);
  }
  return silent;
}

int loop_core_sleep(loop_core *l, struct epoll_event *events, int max_events, int timeout_ms)
{
  int count = -1;
  atomic_store(&l->awake, false);
  // `stopping` is checked too: this pass may have cleared the `wanted` of the last wake.
  if (!atomic_load(&l->wanted) && !atomic_load(&l->group->stopping)) {
    atomic_fetch_sub_explicit(&l->group->awake, 1, memory_order_relaxed);
    count = epoll_wait(l->epoll_fd, events, max_events, timeout_ms);
    atomic_fetch_add_explicit(&l->group->awake, 1, memory_order_relaxed);
  }
  atomic_store(&l->awake, true);
  return count;
}

void loop_core_adopt(loop_core *l, arrival *a)
{
  atomic_fetch_add(&l->group->arriving, 1);
  mpsc_push(&l->arrived, &a->node);
  loop_core_wake(l);
}

size_t loop_core_take_arrivals(loop_core *l, void (*take_on)(loop_core *l, const arrival *a))
{
  size_t count = 0;
  mpsc_node *next;
  for (mpsc_node *node = mpsc_take_all(&l->arrived); node != NULL; node = next) {
    arrival *a = container_of(node, arrival, node);
    next = node->next;
    if (take_on != NULL)
      take_on(l, a);
    else
      close(a->socket_fd);
    free(a);
    size_t arriving = atomic_fetch_sub(&l->group->arriving, 1);
    assert(arriving > 0);
    (void)arriving;
    count++;
  }
  return count;
}
