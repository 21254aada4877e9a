// SPDX-License-Identifier: Apache-2.0
// The models of a server for one scrape: a row for each version, followed by a row for each GPU
// that it has or had instances on. After a reload a version has several copies: the new model, and
// old ones that finish their requests. A row sums the counters of all. One thread, the scraper's.
#ifndef NEREID_CORE_MODEL_ROWS_H
#define NEREID_CORE_MODEL_ROWS_H

#include "base/slice.h"
#include "core/live_models.h"

typedef struct model_copy {
  model *m;     // referenced
  size_t order; // the newest has the smallest
} model_copy;

typedef struct model_row {
  const model_copy *copies; // the newest first
  size_t copy_count;
  slice labels; // the newest copy's
  statistics sum;
  uint64_t pending;
  uint64_t closed[BATCH_CLOSE_REASON_COUNT];
  bool was_used;  // some counter of requests or batches is not 0
  int32_t device; // -1: counters of work on no GPU
  size_t gpus;    // the next so many rows are of GPUs
} model_row;

typedef struct model_rows {
  model_row *items; // by name and version
  size_t count, capacity;
  model_copy *copies;
  size_t copy_count;
  size_t copy_capacity;
  bool failed;
} model_rows;

// False when memory is short: rows may be missing, and model_rows_fini must be called all the same.
// Takes no lock that requests take. References the models until model_rows_fini.
bool model_rows_init(model_rows *rows, live_models *live);
void model_rows_fini(model_rows *rows);

#endif
