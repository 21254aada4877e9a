// SPDX-License-Identifier: Apache-2.0
// What the loops of all listeners do alike, whatever they speak: sockets come to them, threads wake
// them, and they poll for a moment before they sleep. A loop of a protocol has one of these as its
// member `core`, and its loops share a loop_group.
//
// Polling instead of sleeping (docs/performance.md) is worth it only where the last pause was
// short, and not beyond the time that one may last: a client that does not come back costs one such
// time. Where several clients are ready at a time, or other loops are at work, the next request is
// never far, and the processor is better used by them. What another thread does takes longer than
// polling lasts, or it would have been done right here, and that thread wants the processor.
#ifndef NEREID_FRONTEND_COMMON_NET_LOOP_CORE_H
#define NEREID_FRONTEND_COMMON_NET_LOOP_CORE_H

#include "base/clock.h"
#include "base/error.h"
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
  const char *protocol;            // "HTTP"; static, as what follows
  const char *versions;            // of it that are spoken, for clients that speak another
  uint64_t poll_ns;                // how long a loop polls; 0: never
  unsigned max_awake;              // and only while at most so many are awake
  _Atomic unsigned awake;          // loops that do not sleep
  unsigned count;                  // of loops
  _Atomic unsigned turn;           // whose turn to get a connection it is
  _Atomic size_t arriving;         // sockets that no loop has taken on yet
  _Atomic bool stopping;           // the threads end
  _Atomic uint64_t last_logged_ns; // of a client of another protocol
} loop_group;

typedef struct loop_core {
  loop_group *group;
  pthread_t thread;
  bool started;
  int epoll_fd; // sleeps in it; its events of wake_fd have this loop_core as data
  int wake_fd;
  _Atomic bool awake;  // false: a waker must write wake_fd
  _Atomic bool wanted; // look again before sleeping
  mpsc arrived;        // arrivals

  unsigned begun;       // requests that began in this pass; loop thread, as what follows
  unsigned in_flight;   // requests that the core or a job has
  uint64_t worked_ns;   // when there last was progress
  bool clients_hurried; // the client came back within the polling time, and was the only one
} loop_core;

void loop_group_init(loop_group *g, const char *protocol, const char *versions, unsigned count,
                     unsigned busy_poll_us);

// Tells the log, now and then, that a client speaks another protocol.
void loop_group_log_protocol(loop_group *g);

// Whether to log once more what clients can cause: at most once a minute, since those that come and
// go would fill the log. *last_logged_ns is 0 at first. Any thread.
bool loop_may_log(_Atomic uint64_t *last_logged_ns);

// Makes the descriptors. False and errno when there are none; loop_core_fini whatever happens.
bool loop_core_open(loop_core *l, loop_group *g);

// Starts the thread, UNAVAILABLE when it cannot.
error *loop_core_start(loop_core *l, const char *thread_name, void *(*run)(void *), void *argument);

// Ends the thread once the group is stopping. For a loop that was not started too.
void loop_core_join(loop_core *l);

// For a loop that is zeroed, too. What still arrives is the caller's.
void loop_core_fini(loop_core *l);

// Has the loop look at its queues soon. Any thread.
void loop_core_wake(loop_core *l);

// Which loop gets the next connection.
static inline unsigned loop_group_next(loop_group *g)
{
  return atomic_fetch_add(&g->turn, 1) % g->count;
}

// Gives the socket to the loop. Any thread.
void loop_core_adopt(loop_core *l, arrival *arrival_owned);

// --- On the loop's thread

// A pass begins: what is queued from now on is seen in the next one, or in this.
static inline void loop_core_begin_pass(loop_core *l)
{
  l->begun = 0;
  atomic_store(&l->wanted, false);
}

// Gives the sockets that arrived to `take_on`, whose they are then; NULL: nobody wants them, and
// they are closed. Returns how many. Not before the pass has begun.
size_t loop_core_take_arrivals(loop_core *l, void (*take_on)(loop_core *l, const arrival *a));

// Whether to look again instead of sleeping.
static inline bool loop_core_polls(const loop_core *l)
{
  return l->clients_hurried && l->in_flight == 0 &&
         atomic_load_explicit(&l->group->awake, memory_order_relaxed) <= l->group->max_awake &&
         clock_monotonic_ns() - l->worked_ns < l->group->poll_ns;
}

// Sleeps until there are events, the time is over (-1: never), or somebody wakes the loop. Returns
// how many events there are; -1 when the loop is wanted already.
int loop_core_sleep(loop_core *l, struct epoll_event *events, int max_events, int timeout_ms);

// The pass had something to do.
static inline void loop_core_progressed(loop_core *l)
{
  const uint64_t poll_ns = l->group->poll_ns;
  if (poll_ns == 0)
    return;
  uint64_t now = clock_monotonic_ns();
  l->clients_hurried = l->begun < 2 && now - l->worked_ns < 2 * poll_ns;
  l->worked_ns = now;
}

// A request began; it is waited for from now on, since the core or a job has it; or no longer.
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
