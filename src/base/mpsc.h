// SPDX-License-Identifier: Apache-2.0
// A queue that any thread pushes to without a lock and that one thread empties. Nodes are part of
// the queued objects. All operations are sequentially consistent: a producer may push and then
// check whether the consumer sleeps, while the consumer announces its sleep and then checks the
// queue.
#ifndef NEREID_BASE_MPSC_H
#define NEREID_BASE_MPSC_H

#include "base/container_of.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct mpsc_node {
  struct mpsc_node *next;
} mpsc_node;

typedef struct mpsc { // zeroed: empty
  _Atomic(mpsc_node *) newest;
} mpsc;

static inline bool mpsc_is_empty(mpsc *q)
{
  return atomic_load(&q->newest) == NULL;
}

// Any thread. `node` is the queue's until mpsc_take_all has returned it and its `next` was read.
static inline void mpsc_push(mpsc *q, mpsc_node *node)
{
  node->next = atomic_load(&q->newest);
  while (!atomic_compare_exchange_weak(&q->newest, &node->next, node))
    ;
}

// Takes all nodes, oldest first, linked by `next`; NULL when the queue is empty. One thread only.
static inline mpsc_node *mpsc_take_all(mpsc *q)
{
  mpsc_node *oldest = NULL;
  if (mpsc_is_empty(q)) // a write would make the producers wait
    return NULL;
  mpsc_node *newest = atomic_exchange(&q->newest, NULL);
  while (newest != NULL) {
    mpsc_node *next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

#endif
