// Finds the copies of each model version and sums their counters. Runs on the scraper's thread.
#include "core/model_rows.h"

#include "core/model.h"

#include <stdlib.h>
#include <string.h>

static void add_copy(model_rows *rows, model *m)
{
  if (rows->copy_count == rows->copy_capacity) {
    size_t capacity = rows->copy_capacity * 2 + 64;
    model_copy *grown = reallocarray(rows->copies, capacity, sizeof(*grown));
    if (grown == NULL) {
      rows->failed = true;
      return;
    }
    rows->copies = grown;
    rows->copy_capacity = capacity;
  }
  rows->copies[rows->copy_count] = (model_copy){model_ref(m), rows->copy_count};
  rows->copy_count++;
}

static int compare_versions(const model *a, const model *b)
{
  int names = strcmp(a->name, b->name);
  return names != 0
             ? names
             : (a->target.version > b->target.version) - (a->target.version < b->target.version);
}

static int compare_copies(const void *a, const void *b)
{
  const model_copy *left = a, *right = b;
  int versions = compare_versions(left->m, right->m);
  return versions != 0 ? versions : (left->order > right->order) - (left->order < right->order);
}

static bool was_used(const model_row *row)
{
  uint64_t uses = atomic_load_explicit(&row->sum.success.count, memory_order_relaxed) +
                  atomic_load_explicit(&row->sum.execution_count, memory_order_relaxed);
  for (int reason = 0; reason < BATCH_CLOSE_REASON_COUNT; reason++)
    uses += row->closed[reason];
  return uses > 0;
}

// The sum has no counters of batch sizes (see statistics_add), so that no row can fail for want of
// memory.
static void add_row(model_rows *rows, const model_copy *copies, size_t copy_count)
{
  model_row *row = &rows->items[rows->count++];
  row->copies = copies;
  row->copy_count = copy_count;
  row->labels = slice_of(copies[0].m->metric_labels);
  for (size_t c = 0; c < copy_count; c++) {
    model_statistics(copies[c].m, &row->sum);
    row->pending += scheduler_pending(copies[c].m->shared.scheduler);
    for (int reason = 0; reason < BATCH_CLOSE_REASON_COUNT; reason++)
      row->closed[reason] +=
          scheduler_closed_batches(copies[c].m->shared.scheduler, (batch_close_reason)reason);
  }
  row->was_used = was_used(row);
}

bool model_rows_init(model_rows *rows, live_models *live)
{
  *rows = (model_rows){0};
  for (model *m = NULL; (m = live_models_next(live, m)) != NULL;)
    add_copy(rows, m);
  rows->items = calloc(rows->copy_count + 1, sizeof(*rows->items));
  if (rows->items == NULL)
    return false;
  if (rows->copy_count > 0)
    qsort(rows->copies, rows->copy_count, sizeof(*rows->copies), compare_copies);
  for (size_t first = 0, next; first < rows->copy_count; first = next) {
    next = first + 1;
    while (next < rows->copy_count &&
           compare_versions(rows->copies[first].m, rows->copies[next].m) == 0)
      next++;
    add_row(rows, &rows->copies[first], next - first);
  }
  return !rows->failed;
}

void model_rows_fini(model_rows *rows)
{
  free(rows->items);
  for (size_t i = 0; i < rows->copy_count; i++)
    model_unref(rows->copies[i].m);
  free(rows->copies);
}
