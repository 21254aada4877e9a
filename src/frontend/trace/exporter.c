// SPDX-License-Identifier: Apache-2.0
// The exporter's queue and thread. See exporter.h.
#include "frontend/trace/exporter.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/container_of.h"
#include "base/thread.h"

#include <assert.h>

static void free_record(trace_record *r)
{
  trace_setting_unref(r->setting);
  record_free(r);
}

// ---- the thread

static void write_records(exporter *e, trace_record *first)
{
  if (first == NULL)
    return;
  writer_count_lost(&e->writer, e->write(e, first));
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
    if (e->retire != NULL)
      writer_count_lost(&e->writer, e->retire(e, first));
    trace_setting_unref(first);
    first = next;
  }
}

static void export_waiting(writer *w)
{
  exporter *e = container_of(w, exporter, writer);
  trace_record *first = e->first;
  trace_setting *replaced = e->replaced;
  assert(lock_is_held(&w->lock) && *e->end == NULL);
  e->first = NULL;
  e->end = &e->first;
  e->replaced = NULL;
  pthread_mutex_unlock(&w->lock);
  write_records(e, first);
  retire_settings(e, replaced);
  pthread_mutex_lock(&w->lock);
}

// ---- what comes

static bool queue_record(exporter *e, trace_record *r)
{
  size_t weight = e->weigh(r);
  LOCK_SCOPE(&e->writer.lock);
  if (r->incomplete || !writer_admit(&e->writer, weight))
    return false;
  assert(*e->end == NULL);
  r->next = NULL;
  *e->end = r;
  e->end = &r->next;
  return true;
}

void exporter_add(exporter *e, trace_record *r)
{
  if (queue_record(e, r))
    return;
  writer_count_lost(&e->writer, 1);
  // The file is written when all created records are there; this one will not come.
  uint64_t created = atomic_fetch_sub_explicit(&r->setting->created, 1, memory_order_relaxed);
  assert(created > 0);
  (void)created;
  free_record(r);
}

void exporter_retire(exporter *e, trace_setting *s)
{
  LOCK_SCOPE(&e->writer.lock);
  trace_setting **end = &e->replaced;
  assert(s->next_replaced == NULL);
  while (*end != NULL)
    end = &(*end)->next_replaced;
  *end = s;
  writer_urge(&e->writer);
}

// ---- life

error *exporter_start(exporter *e)
{
  e->writer.work = export_waiting;
  e->end = &e->first;
  error *failure = writer_start(&e->writer, "trace-export", "nereid_trace_dropped_total",
                                "Traces that were lost");
  if (failure != NULL)
    e->free(e);
  return failure;
}

void exporter_stop(exporter *e)
{
  if (e != NULL)
    writer_stop(&e->writer, CLOCK_NEVER);
}

void exporter_free(exporter *e)
{
  writer_fini(&e->writer);
  e->free(e);
}
