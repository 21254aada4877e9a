// What a loop does for its connections and for those who wake them.
#include "frontend/grpc/transport/loop.h"

#include "base/blocks.h"
#include "frontend/grpc/transport/connection_state.h"
#include "frontend/grpc/transport/loop_parts.h"
#include "frontend/grpc/transport/server.h"

#include <assert.h>
#include <malloc.h>
#include <sys/epoll.h>

#define NS_PER_MS       UINT64_C(1000000)
#define TRIM_PAUSE_NS   (1000 * NS_PER_MS)
#define TRIM_USED       1000 // calls and replies of closed connections, after which memory goes back
#define CONNECTION_USED 16   // what a connection itself counts for

// ---- what the loop's thread may ask ----

grpc_server *grpc_loop_server(const grpc_loop *l)
{
  return l->all->server;
}

conn_timers *grpc_loop_timers(grpc_loop *l)
{
  return &l->timers;
}

uint64_t grpc_loop_now_ns(const grpc_loop *l)
{
  return l->now_ns;
}

void grpc_loop_note_protocol(grpc_loop *l)
{
  loop_group_log_protocol(&l->all->group);
}

char *grpc_loop_read_buffer(grpc_loop *l)
{
  return l->read_buffer;
}

void grpc_loop_request_began(grpc_loop *l)
{
  loop_core_request_began(&l->core);
}

void grpc_loop_handed_over(grpc_loop *l)
{
  loop_core_handed_over(&l->core);
}

void grpc_loop_took_back(grpc_loop *l)
{
  loop_core_took_back(&l->core);
}

// ---- waking ----

void grpc_loop_wake_stream(grpc_loop *l, grpc_stream *s)
{
  mpsc_push(&l->woken, &s->woken);
  loop_core_wake(&l->core);
}

// ---- connections ----

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

// The allocator keeps what a burst had; the system gets it back a moment later.
void grpc_loop_trim(conn_timer *elapsed)
{
  grpc_loop *l = container_of(elapsed, grpc_loop, trim);
  l->used = 0;
  malloc_trim(0);
  if (atomic_load_explicit(&l->closed, memory_order_relaxed) > 0) // some has yet to be freed
    conn_timer_set(&l->timers, &l->trim, l->now_ns + TRIM_PAUSE_NS);
}

// Large blocks are kept for a moment when they are freed (base/blocks.h).
void grpc_loop_give_back(conn_timer *elapsed)
{
  grpc_loop *l = container_of(elapsed, grpc_loop, give_back);
  if (blocks_trim() || atomic_load(&l->all->server->calls) > 0) // whose blocks are still to come
    conn_timer_set(&l->timers, &l->give_back, l->now_ns + TRIM_PAUSE_NS);
}

void grpc_loop_note_large(grpc_loop *l)
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

static void note_used(grpc_loop *l, const grpc_connection *c)
{
  l->used += CONNECTION_USED + c->used;
  if (l->used >= TRIM_USED && !conn_timer_is_set(&l->trim))
    conn_timer_set(&l->timers, &l->trim, l->now_ns + TRIM_PAUSE_NS);
}

void grpc_loop_forget(grpc_loop *l, grpc_connection *c)
{
  note_used(l, c);
  atomic_fetch_add_explicit(&l->closed, 1, memory_order_relaxed);
  epoll_ctl(l->core.epoll_fd, EPOLL_CTL_DEL, c->wire.fd, NULL);
  list_remove(&c->node);
  list_prepend(&l->forgotten, &c->node); // events of this pass may still name it
  if (list_is_linked(&c->marked))
    list_remove(&c->marked);
  grpc_server_connection_ended(l->all->server);
}
