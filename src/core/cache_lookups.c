// SPDX-License-Identifier: Apache-2.0
// A queue under one lock, and the threads that it feeds. A request waits by its `item`, which no
// scheduler has yet.
#include "core/cache_lookups.h"

#include "base/cleanup.h"
#include "base/thread.h"
#include "request/request.h"

#include <assert.h>
#include <stdlib.h>

#define MOST_THREADS    64
#define WAITING_FOR_ONE 32 // for each thread; beyond that, look-ups cost more than they save

struct cache_lookups {
  cache_lookup *look_up;
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t changed;
  list waiting; // queue_items
  size_t waiting_count;
  bool ending;
  unsigned thread_count; // of those that started
  pthread_t threads[MOST_THREADS];
};

// NULL: there is nothing left, and the threads end.
static request *take(cache_lookups *l)
{
  LOCK_SCOPE(&l->lock);
  while (list_is_empty(&l->waiting) && !l->ending)
    pthread_cond_wait(&l->changed, &l->lock);
  list_node *first = list_first(&l->waiting);
  if (first == NULL)
    return NULL;
  list_remove(first);
  l->waiting_count--;
  return request_of_item(container_of(first, queue_item, node));
}

static void *run(void *lookups)
{
  request *r;
  cache_lookups *l = lookups;
  while ((r = take(l)) != NULL)
    l->look_up(r);
  return NULL;
}

error *cache_lookups_new(unsigned threads, cache_lookup *look_up, cache_lookups **result)
{
  cache_lookups *l = calloc(1, sizeof(*l));
  if (l == NULL)
    return error_no_memory();
  l->look_up = look_up;
  pthread_mutex_init(&l->lock, NULL);
  pthread_cond_init(&l->changed, NULL);
  list_init(&l->waiting);
  error *e = NULL;
  while (e == NULL && l->thread_count < threads && l->thread_count < MOST_THREADS)
    if ((e = thread_start(&l->threads[l->thread_count], "cache-lookup", run, l)) == NULL)
      l->thread_count++;
  if (e != NULL) {
    cache_lookups_free(l);
    return e;
  }
  *result = l;
  return NULL;
}

void cache_lookups_free(cache_lookups *l)
{
  if (l == NULL)
    return;
  pthread_mutex_lock(&l->lock);
  assert(list_is_empty(&l->waiting));
  l->ending = true;
  pthread_cond_broadcast(&l->changed);
  pthread_mutex_unlock(&l->lock);
  for (unsigned i = 0; i < l->thread_count; i++)
    pthread_join(l->threads[i], NULL);
  pthread_cond_destroy(&l->changed);
  pthread_mutex_destroy(&l->lock);
  free(l);
}

bool cache_lookups_add(cache_lookups *l, request *r)
{
  assert(r->item.state == ITEM_OUTSIDE && !list_is_linked(&r->item.node));
  LOCK_SCOPE(&l->lock);
  if (l->waiting_count >= (size_t)WAITING_FOR_ONE * l->thread_count)
    return false;
  list_append(&l->waiting, &r->item.node);
  l->waiting_count++;
  pthread_cond_signal(&l->changed);
  return true;
}
