// The exporter's queue and thread: see exporter.h.
#include "frontend/trace/exporter.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "frontend/common/observe/front_counter.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct retired { // a setting in the queue; a list
  struct retired *next;
  trace_setting *setting; // referenced
} retired;

struct exporter {
  trace_sink *sink; // owned
  exporter_limits limits;
  pthread_t thread;
  pthread_mutex_t lock; // guards what follows up to the blank line
  pthread_cond_t changed;
  trace_record *first, *last;
  size_t weight;
  uint64_t oldest_ns; // when the first record came
  retired *replaced;
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
  if (e->replaced != NULL || e->stopping || e->weight >= e->limits.wake_at)
    return true;
  if (e->first == NULL) {
    pthread_cond_wait(&e->changed, &e->lock);
    return false;
  }
  uint64_t due = e->oldest_ns + e->limits.wait_ns;
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

static void retire_settings(exporter *e, retired *first)
{
  while (first != NULL) {
    retired *next = first->next;
    front_counter_add(&e->dropped, e->sink->retire(e->sink, first->setting));
    trace_setting_unref(first->setting);
    free(first);
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
  retired *replaced = e->replaced;
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
  if (e->stopping || r->incomplete || weight > e->limits.most ||
      e->weight > e->limits.most - weight)
    return r;
  bool was_below = e->weight < e->limits.wake_at;
  e->weight += weight;
  r->next = NULL;
  if (e->first == NULL) {
    e->first = r;
    e->oldest_ns = clock_monotonic_ns();
    pthread_cond_signal(&e->changed);
  } else {
    e->last->next = r;
    if (was_below && e->weight >= e->limits.wake_at)
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
  retired *item = malloc(sizeof(*item));
  if (item == NULL) { // what it holds is lost with it
    trace_setting_unref(s);
    return;
  }
  *item = (retired){.setting = s};
  LOCK_SCOPE(&e->lock);
  retired **end = &e->replaced;
  while (*end != NULL)
    end = &(*end)->next;
  *end = item;
  pthread_cond_signal(&e->changed);
}

// ---- life

error *exporter_new(trace_sink *sink, const exporter_limits *limits, exporter **result)
{
  exporter *e = calloc(1, sizeof(*e));
  if (e == NULL) {
    sink->free(sink);
    return error_no_memory();
  }
  e->sink = sink;
  e->limits = *limits;
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
