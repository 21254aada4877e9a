// A binary heap of timers that know their place in it.
#include "frontend/grpc/transport/timers.h"

#include "base/checked.h"

#include <stdlib.h>

void timers_fini(timers *all)
{
  free(all->heap);
  *all = (timers){0};
}

static void put(timers *all, size_t index, timer *t)
{
  all->heap[index] = t;
  t->place = index + 1;
}

static void rise(timers *all, size_t index, timer *t)
{
  while (index > 0) {
    size_t parent = (index - 1) / 2;
    if (all->heap[parent]->due_ns <= t->due_ns)
      break;
    put(all, index, all->heap[parent]);
    index = parent;
  }
  put(all, index, t);
}

static void sink(timers *all, size_t index, timer *t)
{
  for (;;) {
    size_t child = 2 * index + 1;
    if (child >= all->count)
      break;
    if (child + 1 < all->count && all->heap[child + 1]->due_ns < all->heap[child]->due_ns)
      child++;
    if (t->due_ns <= all->heap[child]->due_ns)
      break;
    put(all, index, all->heap[child]);
    index = child;
  }
  put(all, index, t);
}

static bool make_room(timers *all)
{
  if (all->count < all->capacity)
    return true;
  size_t capacity = all->capacity == 0 ? 64 : all->capacity * 2;
  size_t size;
  timer **grown =
      checked_multiply_size(capacity, sizeof(timer *), &size) ? realloc(all->heap, size) : NULL;
  if (grown == NULL)
    return false;
  all->heap = grown;
  all->capacity = capacity;
  return true;
}

bool timers_set(timers *all, timer *t, uint64_t due_ns)
{
  uint64_t before = t->due_ns;
  if (t->place == 0) {
    if (!make_room(all))
      return false;
    t->due_ns = due_ns;
    rise(all, all->count++, t);
    return true;
  }
  t->due_ns = due_ns;
  if (due_ns < before)
    rise(all, t->place - 1, t);
  else
    sink(all, t->place - 1, t);
  return true;
}

void timers_cancel(timers *all, timer *t)
{
  if (t->place == 0)
    return;
  size_t index = t->place - 1;
  t->place = 0;
  timer *last = all->heap[--all->count];
  if (last == t)
    return;
  if (last->due_ns < t->due_ns)
    rise(all, index, last);
  else
    sink(all, index, last);
}

void timers_run(timers *all, uint64_t now_ns)
{
  // One that is set anew in the past has its next turn in the next pass.
  for (size_t left = all->count; left > 0 && all->count > 0 && all->heap[0]->due_ns <= now_ns;
       left--) {
    timer *elapsed = all->heap[0];
    timers_cancel(all, elapsed);
    elapsed->fire(elapsed);
  }
}

uint64_t timers_next(const timers *all)
{
  return all->count == 0 ? UINT64_MAX : all->heap[0]->due_ns;
}
