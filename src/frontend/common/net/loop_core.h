// SPDX-License-Identifier: Apache-2.0
// The common part of all protocols' loops: they receive accepted sockets, other threads wake them,
// and they poll for a moment before they sleep. A protocol's loop has a loop_core as its member
// `core`, and its loops share a loop_group.
//
// Polling instead of sleeping (docs/performance.md) pays only for a client that comes back at once.
// So a loop polls only if the last pause was short and a single client was ready, and for a bounded
// time: a client that stays away costs one such time. With several clients, or several awake loops,
// the next request is near anyway and the processor has better work. A loop does not poll while the
// core or a job has a request: that takes longer than polling lasts, and its thread needs the
// processor.
#ifndef NEREID_FRONTEND_COMMON_NET_LOOP_CORE_H
#define NEREID_FRONTEND_COMMON_NET_LOOP_CORE_H

#include "base/clock.h"
#include "base/error.h"
#include "base/list.h"
#include "base/mpsc.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>

// An accepted, non-blocking socket on its way to its loop.
typedef struct arrival {
  mpsc_node node;
  int socket_fd; // owned
  socklen_t address_size;
  struct sockaddr_storage address; // of the client
} arrival;

typedef struct loop_group {
  const char *protocol;    // "HTTP"; static, as the next
  const char *versions;    // of the protocol, as the log names them to clients that speak another
  uint64_t poll_ns;        // how long a loop polls; 0: never
  unsigned max_awake;      // more awake loops than this: none polls
  _Atomic unsigned awake;  // loops that do not sleep
  unsigned count;          // of loops
  _Atomic unsigned turn;   // turn % count is the loop of the next connection
  _Atomic size_t arriving; // sockets that no loop has taken yet
  _Atomic bool stopping;   // the threads must end
  _Atomic uint64_t last_logged_ns; // when the log last named a client of another protocol
} loop_group;

typedef struct loop_core {
  loop_group *group;
  pthread_t thread;
  bool started;
  int epoll_fd; // the loop sleeps in it; events of wake_fd carry this loop_core as data
  int wake_fd;
  _Atomic bool awake;                  // false: a waker must write wake_fd
  _Atomic bool wanted;                 // the loop must look again before it sleeps
  mpsc arrived;                        // arrivals
  list_node node;                      // among the loops of this process that have a thread
  _Atomic unsigned questions, answers; // loops_silent: asked; that of the last pass

  unsigned begun;       // requests that began in this pass; this and the next: loop thread only
  unsigned in_flight;   // requests that the core or a job has now
  uint64_t worked_ns;   // the last pass that had something to do
  bool clients_hurried; // a single client came back within the polling time
} loop_core;

void loop_group_init(loop_group *g, const char *protocol, const char *versions, unsigned count,
                     unsigned busy_poll_us);

// Logs, at most once a minute, that a client speaks another protocol.
void loop_group_log_protocol(loop_group *g);

// True at most once a minute: limits log lines that clients can cause. *last_logged_ns is 0 at
// first. Any thread.
bool loop_may_log(_Atomic uint64_t *last_logged_ns);

// Makes the descriptors. False and errno on failure; needs loop_core_fini in either case.
bool loop_core_open(loop_core *l, loop_group *g);

// Starts the thread. Errors: UNAVAILABLE.
error *loop_core_start(loop_core *l, const char *thread_name, void *(*run)(void *), void *argument);

// Waits for the thread to end; the group must be stopping. A loop that was not started is allowed.
void loop_core_join(loop_core *l);

// A zeroed loop is allowed. No arrivals may be left.
void loop_core_fini(loop_core *l);

// Makes the loop look at its queues soon. Any thread.
void loop_core_wake(loop_core *l);

// The index of the loop that gets the next connection.
static inline unsigned loop_group_next(loop_group *g)
{
  return atomic_fetch_add(&g->turn, 1) % g->count;
}

// Gives the socket to the loop. Any thread.
void loop_core_adopt(loop_core *l, arrival *arrival_owned);

// For a watchdog: asks each loop of this process to make a pass. Returns the protocol of a loop
// that has made none since the last call, or NULL. One thread at a time.
const char *loops_silent(void);

// --- On the loop's thread

// Begins a pass. What is queued from now on is seen in this pass or the next.
static inline void loop_core_begin_pass(loop_core *l)
{
  l->begun = 0;
  atomic_store_explicit(&l->answers, atomic_load_explicit(&l->questions, memory_order_relaxed),
                        memory_order_relaxed);
  atomic_store(&l->wanted, false);
}

// Gives each arrived socket to `take_on`, which takes it over; with NULL the sockets are closed.
// Returns how many. Call after loop_core_begin_pass.
size_t loop_core_take_arrivals(loop_core *l, void (*take_on)(loop_core *l, const arrival *a));

// Should the loop look again instead of sleeping?
static inline bool loop_core_polls(const loop_core *l)
{
  return l->clients_hurried && l->in_flight == 0 &&
         atomic_load_explicit(&l->group->awake, memory_order_relaxed) <= l->group->max_awake &&
         clock_monotonic_ns() - l->worked_ns < l->group->poll_ns;
}

// Sleeps until there are events, the timeout (-1: none) is over, or another thread wakes the loop.
// Returns the number of events; -1, without sleeping, when the loop is wanted already.
int loop_core_sleep(loop_core *l, struct epoll_event *events, int max_events, int timeout_ms);

// Notes that the pass had something to do.
static inline void loop_core_progressed(loop_core *l)
{
  const uint64_t poll_ns = l->group->poll_ns;
  if (poll_ns == 0)
    return;
  uint64_t now = clock_monotonic_ns();
  l->clients_hurried = l->begun < 2 && now - l->worked_ns < 2 * poll_ns;
  l->worked_ns = now;
}

// These three count requests: begun in this pass, handed over to the core or a job, taken back.
static inline void loop_core_request_began(loop_core *l)
{
  l->begun++;
}

static inline void loop_core_handed_over(loop_core *l)
{
  l->in_flight++;
}

static inline void loop_core_took_back(loop_core *l)
{
  assert(l->in_flight > 0);
  l->in_flight--;
}

#endif
