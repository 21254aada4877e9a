// SPDX-License-Identifier: Apache-2.0
// Services of a loop for its connections and calls: wakes, watches, flushes and forgets them, and
// gives their memory back.
#include "frontend/grpc/transport/loop.h"

#include "base/blocks.h"
#include "frontend/grpc/transport/connection_state.h"

#include <assert.h>
#include <malloc.h>

#define NS_PER_MS       UINT64_C(1000000)
#define TRIM_PAUSE_NS   (1000 * NS_PER_MS)
#define TRIM_USED       1000 // calls and replies of closed connections: then memory goes back
#define CONNECTION_USED 16   // a connection counts as this many

void grpc_loop_wake_stream(grpc_loop *l, grpc_stream *s)
{
  mpsc_push(&l->woken, &s->woken);
  loop_core_wake(&l->core);
}

void grpc_loops_record_closed(grpc_loops *all)
{
  assert(atomic_load(&all->connections) > 0);
  drain_count_down(&all->listener->drain, &all->connections);
}

void grpc_loop_mark(grpc_loop *l, grpc_connection *c)
{
  if (!list_is_linked(&c->marked) && !connection_is_closed(c))
    list_prepend(&l->marked, &c->marked);
}

bool grpc_loop_watch(grpc_loop *l, grpc_connection *c, bool for_output)
{
  struct epoll_event event = {.events = EPOLLIN | (for_output ? EPOLLOUT : 0), .data.ptr = c};
  c->watches_output = for_output;
  return epoll_ctl(l->core.epoll_fd, EPOLL_CTL_MOD, c->wire.fd, &event) == 0;
}

// Gives the allocator's free pages back to the system, a moment after a burst.
static void trim(conn_timer *elapsed)
{
  grpc_loop *l = container_of(elapsed, grpc_loop, trim);
  l->used = 0;
  malloc_trim(0);
  if (atomic_load_explicit(&l->closed, memory_order_relaxed) > 0) // connections that are not freed
                                                                  // yet
    conn_timer_set(&l->timers, &l->trim, l->now_ns + TRIM_PAUSE_NS);
}

// Frees blocks that were kept for reuse (base/blocks.h).
static void give_back(conn_timer *elapsed)
{
  grpc_loop *l = container_of(elapsed, grpc_loop, give_back);
  if (blocks_trim() || atomic_load(&l->all->listener->busy) > 0) // busy calls may still free blocks
    conn_timer_set(&l->timers, &l->give_back, l->now_ns + TRIM_PAUSE_NS);
}

void grpc_loop_record_large(grpc_loop *l)
{
  if (!conn_timer_is_set(&l->give_back))
    conn_timer_set(&l->timers, &l->give_back, l->now_ns + TRIM_PAUSE_NS);
}

void grpc_loop_freed(grpc_loop *l)
{
  size_t before = atomic_fetch_sub_explicit(&l->closed, 1, memory_order_relaxed);
  assert(before > 0);
  (void)before;
}

static void record_used(grpc_loop *l, const grpc_connection *c)
{
  l->used += CONNECTION_USED + c->used;
  if (l->used >= TRIM_USED && !conn_timer_is_set(&l->trim))
    conn_timer_set(&l->timers, &l->trim, l->now_ns + TRIM_PAUSE_NS);
}

void grpc_loop_forget(grpc_loop *l, grpc_connection *c)
{
  record_used(l, c);
  atomic_fetch_add_explicit(&l->closed, 1, memory_order_relaxed);
  epoll_ctl(l->core.epoll_fd, EPOLL_CTL_DEL, c->wire.fd, NULL);
  list_remove(&c->node);
  list_prepend(&l->forgotten, &c->node); // events of this pass may still refer to it
  if (list_is_linked(&c->marked))
    list_remove(&c->marked);
  grpc_loops_record_closed(l->all);
}

void grpc_loop_init(grpc_loop *l, grpc_loops *all)
{
  l->all = all;
  list_init(&l->connections);
  list_init(&l->marked);
  list_init(&l->forgotten);
  l->trim.fire = trim;
  l->give_back.fire = give_back;
}
