// SPDX-License-Identifier: Apache-2.0
// Finds the copies of each model version and sums their counters. Runs on the scraper's thread.
#include "core/model_rows.h"

#include "core/model.h"
#include "core/model_gpus.h"
#include "core/model_instances.h"
#include "core/model_queue.h"

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
  int names = strcmp(a->id, b->id);
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

static model_row *next_row(model_rows *rows)
{
  if (rows->count == rows->capacity) {
    size_t capacity = rows->capacity * 2 + 16;
    model_row *grown = reallocarray(rows->items, capacity, sizeof(*grown));
    if (grown == NULL) {
      rows->failed = true;
      return NULL;
    }
    rows->items = grown;
    rows->capacity = capacity;
  }
  model_row *row = &rows->items[rows->count++];
  *row = (model_row){0};
  return row;
}

static bool has_gpu_row(const model_rows *rows, size_t first, int32_t device)
{
  for (size_t i = first; i < rows->count; i++)
    if (rows->items[i].device == device)
      return true;
  return false;
}

static void sum_gpu(model_row *row, const model_copy *copies, size_t copy_count, int32_t device)
{
  for (size_t c = 0; c < copy_count; c++)
    for (size_t g = 0; g < model_gpus_count(copies[c].m); g++) {
      const gpu_counters *gpu = model_gpus_at(copies[c].m, g);
      if (gpu->device == device)
        statistics_add(&row->sum, &gpu->counters);
    }
}

// Each device's row has the labels of the newest copy with instances on it.
static size_t add_gpu_rows(model_rows *rows, const model_copy *copies, size_t copy_count)
{
  size_t first = rows->count;
  for (size_t c = 0; c < copy_count; c++)
    for (size_t g = 0; g < model_gpus_count(copies[c].m); g++) {
      const gpu_counters *gpu = model_gpus_at(copies[c].m, g);
      model_row *row = has_gpu_row(rows, first, gpu->device) ? NULL : next_row(rows);
      if (row == NULL)
        continue;
      row->copies = copies;
      row->copy_count = copy_count;
      row->device = gpu->device;
      row->labels = slice_of(gpu->metric_labels);
      sum_gpu(row, copies, copy_count, gpu->device);
      row->was_used = was_used(row);
    }
  return rows->count - first;
}

// The sum leaves out batch sizes (see statistics_add), whose rows would need memory.
static void add_row(model_rows *rows, const model_copy *copies, size_t copy_count)
{
  size_t at = rows->count;
  model_row *row = next_row(rows);
  if (row == NULL)
    return;
  row->copies = copies;
  row->copy_count = copy_count;
  row->device = -1;
  row->labels = slice_of(copies[0].m->metric_labels);
  for (size_t c = 0; c < copy_count; c++) {
    model_statistics_off_gpus(copies[c].m, &row->sum);
    row->pending += model_queue_pending(copies[c].m);
    for (int reason = 0; reason < BATCH_CLOSE_REASON_COUNT; reason++)
      row->closed[reason] += model_queue_closed_batches(copies[c].m, (batch_close_reason)reason);
  }
  row->was_used = was_used(row);
  size_t gpus = add_gpu_rows(rows, copies, copy_count);
  rows->items[at].gpus = gpus;
}

bool model_rows_init(model_rows *rows, live_models *live)
{
  *rows = (model_rows){0};
  for (model *m = NULL; (m = live_models_next(live, m)) != NULL;)
    add_copy(rows, m);
  rows->capacity = rows->copy_count + 1;
  rows->items = calloc(rows->capacity, sizeof(*rows->items));
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
