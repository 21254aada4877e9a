// SPDX-License-Identifier: Apache-2.0
// Timers of one thread, in a heap.
#include "frontend/grpc/transport/conn_timer.h"

void conn_timer_cancel(conn_timers *all, conn_timer *t)
{
  if (conn_timer_is_set(t))
    heap_remove(&all->heap, &t->node);
}

void conn_timer_set(conn_timers *all, conn_timer *t, uint64_t due_ns)
{
  conn_timer_cancel(all, t);
  t->node.when_ns = due_ns > all->run_ns ? due_ns : all->run_ns;
  heap_insert(&all->heap, &t->node);
}

void conn_timers_run(conn_timers *all, uint64_t now_ns)
{
  const uint64_t end = all->heap.next_sequence; // timers set from here on wait for the next run
  heap_node *first;
  all->run_ns = now_ns;
  while ((first = heap_first(&all->heap)) != NULL && first->when_ns <= now_ns &&
         first->sequence < end) {
    heap_remove(&all->heap, first);
    conn_timer *elapsed = container_of(first, conn_timer, node);
    elapsed->fire(elapsed);
  }
}

uint64_t conn_timers_next(const conn_timers *all)
{
  const heap_node *first = heap_first(&all->heap);
  return first != NULL ? first->when_ns : UINT64_MAX;
}
