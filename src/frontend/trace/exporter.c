// The exporter's queue and thread: see exporter.h.
#include "frontend/trace/exporter.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "frontend/common/observe/front_counter.h"

#include <pthread.h>
#include <stdlib.h>

struct exporter {
  trace_sink *sink; // owned
  pthread_t thread;
  pthread_mutex_t lock; // guards what follows up to the blank line
  pthread_cond_t changed;
  trace_record *first, *last;
  size_t weight;
  uint64_t oldest_ns;      // when the first record came
  trace_setting *replaced; // each referenced
  bool stopping;

  front_counter dropped;
};

// ---- the thread

static void free_record(trace_record *r)
{
  trace_setting_unref(r->setting);
  record_free(r);
}

// Whether there is something to do now; else waits for it, or for the end. With the lock.
static bool is_due(exporter *e)
{
  if (e->replaced != NULL || e->stopping || e->weight >= e->sink->wake_at)
    return true;
  if (e->first == NULL) {
    pthread_cond_wait(&e->changed, &e->lock);
    return false;
  }
  uint64_t due = e->oldest_ns + e->sink->wait_ns;
  if (clock_monotonic_ns() >= due)
    return true;
  thread_wait(&e->changed, &e->lock, due);
  return false;
}

static void write_records(exporter *e, trace_record *first)
{
  if (first == NULL)
    return;
  front_counter_add(&e->dropped, e->sink->write(e->sink, first));
  while (first != NULL) {
    trace_record *next = first->next;
    free_record(first);
    first = next;
  }
}

static void retire_settings(exporter *e, trace_setting *first)
{
  while (first != NULL) {
    trace_setting *next = first->next_replaced;
    if (e->sink->retire != NULL)
      front_counter_add(&e->dropped, e->sink->retire(e->sink, first));
    trace_setting_unref(first);
    first = next;
  }
}

// Takes what is there. False: the end.
static bool run_once(exporter *e)
{
  pthread_mutex_lock(&e->lock);
  while (!is_due(e))
    continue;
  trace_record *first = e->first;
  trace_setting *replaced = e->replaced;
  bool stopping = e->stopping;
  e->first = e->last = NULL;
  e->weight = 0;
  e->replaced = NULL;
  pthread_mutex_unlock(&e->lock);
  write_records(e, first);
  retire_settings(e, replaced);
  return !stopping || first != NULL || replaced != NULL;
}

static void *run(void *pointer)
{
  while (run_once(pointer))
    continue;
  return NULL;
}

// ---- what comes

// NULL: it was taken.
static trace_record *take(exporter *e, trace_record *r)
{
  size_t weight = e->sink->weigh(r);
  LOCK_SCOPE(&e->lock);
  if (e->stopping || r->incomplete || weight > e->sink->most || e->weight > e->sink->most - weight)
    return r;
  bool was_below = e->weight < e->sink->wake_at;
  e->weight += weight;
  r->next = NULL;
  if (e->first == NULL) {
    e->first = r;
    e->oldest_ns = clock_monotonic_ns();
    pthread_cond_signal(&e->changed);
  } else {
    e->last->next = r;
    if (was_below && e->weight >= e->sink->wake_at)
      pthread_cond_signal(&e->changed);
  }
  e->last = r;
  return NULL;
}

void exporter_add(exporter *e, trace_record *r)
{
  trace_record *refused = take(e, r);
  if (refused == NULL)
    return;
  front_counter_add(&e->dropped, 1);
  // Who waits for all that were created does not wait for this one.
  atomic_fetch_sub_explicit(&refused->setting->created, 1, memory_order_relaxed);
  free_record(refused);
}

void exporter_retire(exporter *e, trace_setting *s)
{
  LOCK_SCOPE(&e->lock);
  trace_setting **end = &e->replaced;
  while (*end != NULL)
    end = &(*end)->next_replaced;
  *end = s;
  pthread_cond_signal(&e->changed);
}

// ---- life

error *exporter_new(trace_sink *sink, exporter **result)
{
  exporter *e = calloc(1, sizeof(*e));
  if (e == NULL) {
    sink->free(sink);
    return error_no_memory();
  }
  e->sink = sink;
  pthread_mutex_init(&e->lock, NULL);
  pthread_cond_init(&e->changed, NULL);
  front_counter_init(&e->dropped, "nereid_trace_dropped_total", "Traces that were lost");
  error *failure = thread_start(&e->thread, "trace-export", run, e);
  if (failure != NULL)
    exporter_free(e);
  else
    *result = e;
  return failure;
}

void exporter_stop(exporter *e)
{
  if (e == NULL)
    return;
  pthread_mutex_lock(&e->lock);
  e->stopping = true;
  pthread_cond_signal(&e->changed);
  pthread_mutex_unlock(&e->lock);
  pthread_join(e->thread, NULL);
}

void exporter_free(exporter *e)
{
  front_counter_fini(&e->dropped);
  e->sink->free(e->sink);
  pthread_cond_destroy(&e->changed);
  pthread_mutex_destroy(&e->lock);
  free(e);
}
