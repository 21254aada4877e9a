// SPDX-License-Identifier: Apache-2.0
// The table of nodes and calls, and the search for circles in it. A call is stuck while it waits
// for stuck calls. A call that becomes stuck with a new wait is stuck because of that wait.
#include "instance/wait_graph.h"

#include "base/cleanup.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // guards all below
static list nodes = {.ends = {&nodes.ends, &nodes.ends}};
static wait_call *buckets[BUCKETS];
static _Atomic size_t open_count; // calls in the table; read without the lock, to avoid taking it

// ---- calls by their request; from here on the lock is held, unless said otherwise

static wait_call **bucket_of(const void *request)
{
  uintptr_t bits = (uintptr_t)request;
  return &buckets[(bits >> 4 ^ bits >> 14) % BUCKETS];
}

static wait_call *find_request(const void *request)
{
  wait_call *call = *bucket_of(request);
  while (call != NULL && call->request != request)
    call = call->next_in_bucket;
  return call;
}

static void leave_bucket(wait_call *self)
{
  if (self->request == NULL)
    return;
  wait_call **at = bucket_of(self->request);
  while (*at != self) {
    assert(*at != NULL);
    at = &(*at)->next_in_bucket;
  }
  *at = self->next_in_bucket;
  self->request = NULL;
}

static void end_wait(wait_call *self)
{
  assert(self->kind != WAIT_THREAD || self->node->waits_for == self);
  if (self->kind == WAIT_THREAD)
    self->node->waits_for = NULL;
  self->kind = WAIT_NONE;
}

static void drop(wait_call *self)
{
  assert(self->node != NULL);
  end_wait(self);
  leave_bucket(self);
  list_remove(&self->under_way);
  self->node = self->at = NULL;
  size_t before = atomic_fetch_sub_explicit(&open_count, 1, memory_order_relaxed);
  assert(before > 0);
  (void)before;
}

#define each_call(call)                                                                            \
  list_foreach (wait_node, n, in_graph, &nodes)                                                    \
    list_foreach (wait_call, call, under_way, &n->calls)

// ---- dependencies

static bool is_queued(const wait_call *self)
{
  return self->at == NULL && self->request != NULL;
}

// Whether `call`, given to the node that made `wait`, cannot be answered during that wait. A
// worker's thread takes its executions in the order of their numbers.
static bool blocks(const wait_call *wait, const wait_call *call)
{
  if (wait->kind == WAIT_COROUTINE || wait->execution == call->at_execution)
    return wait->kind != WAIT_NONE && wait->execution == call->at_execution && !wait->is_shared;
  return wait->kind == WAIT_THREAD && wait->execution < call->at_execution;
}

// Whether every instance of the queued call's model is blocked by a wait; with `stuck` by a stuck
// one.
static bool all_are_stuck(const wait_call *call, bool stuck)
{
  bool any = false;
  list_foreach (wait_node, n, in_graph, &nodes) {
    if (n->model != call->target)
      continue;
    if (n->waits_for == NULL || (stuck && !n->waits_for->is_stuck))
      return false;
    any = true;
  }
  return any;
}

static bool remains_stuck(const wait_call *self)
{
  if (self->at == NULL)
    return is_queued(self) && all_are_stuck(self, true);
  list_foreach (wait_call, w, under_way, &self->at->calls) {
    if (w->is_stuck && blocks(w, self))
      return true;
  }
  return false;
}

// A quick check before the long one. False: an instance can serve the call.
static bool may_be_stuck(const wait_call *self)
{
  return self->at == NULL ? is_queued(self) && all_are_stuck(self, false)
                          : !list_is_empty(&self->at->calls);
}

// Finds the largest set of waits in which each waits for others of the set.
static bool is_in_circle(wait_call *self)
{
  if (!may_be_stuck(self))
    return false;
  each_call(call)
  {
    call->is_stuck = call->kind != WAIT_NONE;
    call->path = NULL;
    call->distance = 0;
  }
  for (bool changed = true; changed && self->is_stuck;) {
    changed = false;
    each_call(call)
    {
      if (!call->is_stuck || remains_stuck(call))
        continue;
      call->is_stuck = false;
      changed = true;
    }
  }
  return self->is_stuck;
}

// ---- the text

// A wait that blocks `call`, at `distance` from the goal. NULL: none.
static wait_call *next_on_path(const wait_call *call, unsigned distance)
{
  if (call->at != NULL) {
    list_foreach (wait_call, w, under_way, &call->at->calls) {
      if (w->is_stuck && w->distance == distance && blocks(w, call))
        return w;
    }
    return NULL;
  }
  list_foreach (wait_node, n, in_graph, &nodes) {
    if (n->model == call->target && n->waits_for->distance == distance)
      return n->waits_for;
  }
  return NULL;
}

// Sets `path` of each wait to the next one on the shortest way back to `goal`.
static void find_path(wait_call *goal)
{
  goal->distance = 1;
  bool found = true;
  for (unsigned distance = 1; goal->path == NULL && found; distance++) {
    found = false;
    each_call(call)
    {
      if (!call->is_stuck || call->path != NULL ||
          (call->path = next_on_path(call, distance)) == NULL)
        continue;
      found = true;
      call->distance = call == goal ? 1 : distance + 1;
    }
  }
}

// NULL: no memory.
static char *describe(wait_call *self)
{
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  if (out == NULL)
    return NULL;
  find_path(self);
  fprintf(out, "model '%s' would wait for itself: %s (version %llu)", self->node->name,
          self->node->name, (unsigned long long)self->node->version);
  for (const wait_call *at = self->path; at != NULL; at = at == self ? NULL : at->path)
    fprintf(out, " -> %s (version %llu)", at->node->name, (unsigned long long)at->node->version);
  fputs("; each time that a call comes back to a model takes one more instance of it "
        "(instance_group)",
        out);
  fclose(out);
  return text;
}

// ---- public functions; the lock is not held

void wait_graph_join(wait_node *self)
{
  LOCK_SCOPE(&lock);
  assert(self->waits_for == NULL);
  list_init(&self->calls);
  list_prepend(&nodes, &self->in_graph);
}

static void forget(wait_node *self)
{
  list_foreach_safe (wait_call, call, under_way, &self->calls)
    drop(call);
  assert(self->waits_for == NULL);
}

void wait_graph_forget(wait_node *self)
{
  LOCK_SCOPE(&lock);
  if (list_is_linked(&self->in_graph))
    forget(self);
}

void wait_graph_leave(wait_node *self)
{
  LOCK_SCOPE(&lock);
  if (!list_is_linked(&self->in_graph))
    return;
  forget(self);
  list_remove(&self->in_graph);
  each_call(call)
  {
    if (call->at == self) { // the server knows the outcome, the caller not yet
      leave_bucket(call);
      call->at = NULL;
    }
  }
}

void wait_graph_open(wait_call *self, wait_node *node, const void *request,
                     const struct TRITONBACKEND_Model *target)
{
  LOCK_SCOPE(&lock);
  assert(self->node == NULL && request != NULL);
  if (!list_is_linked(&node->in_graph))
    return;
  self->node = node;
  self->target = target;
  self->request = request;
  wait_call **bucket = bucket_of(request);
  self->next_in_bucket = *bucket;
  *bucket = self;
  list_prepend(&node->calls, &self->under_way);
  atomic_fetch_add_explicit(&open_count, 1, memory_order_relaxed);
}

char *wait_graph_wait(wait_call *self, wait_kind kind, uint64_t execution, bool is_shared,
                      uint64_t seen)
{
  LOCK_SCOPE(&lock);
  if (self->node == NULL || self->kind != WAIT_NONE || self->replies != seen || self->is_refused ||
      (kind == WAIT_THREAD && self->node->waits_for != NULL))
    return NULL;
  self->kind = kind;
  self->execution = execution;
  self->is_shared = is_shared;
  if (kind == WAIT_THREAD)
    self->node->waits_for = self;
  char *text = is_in_circle(self) ? describe(self) : NULL;
  self->is_refused = text != NULL;
  if (self->is_refused)
    end_wait(self);
  return text;
}

bool wait_graph_reply(wait_call *self, bool final)
{
  LOCK_SCOPE(&lock);
  self->replies++;
  if (self->node != NULL && final)
    drop(self);
  else if (self->node != NULL)
    end_wait(self);
  return !self->is_refused;
}

void wait_graph_released(wait_call *self)
{
  LOCK_SCOPE(&lock);
  leave_bucket(self);
}

// A call is in the table before its request reaches any execution.
char *wait_graph_give(wait_node *node, uint64_t execution, const void *request)
{
  if (atomic_load_explicit(&open_count, memory_order_relaxed) == 0)
    return NULL;
  LOCK_SCOPE(&lock);
  wait_call *call = find_request(request);
  if (call == NULL)
    return NULL;
  assert(call->node != NULL);
  call->at = node;
  call->at_execution = execution;
  return call->kind != WAIT_NONE && is_in_circle(call) ? describe(call) : NULL;
}

bool wait_graph_is_waiting(const wait_node *self)
{
  LOCK_SCOPE(&lock);
  return self->waits_for != NULL;
}
