// SPDX-License-Identifier: Apache-2.0
// The models of a server for one scrape: a row for each version, with the counters of all its
// copies, followed by a row for each GPU that it has or had instances on. Made and read on the
// scraper's thread.
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
  bool was_used;  // it has executed something
  int32_t device; // the GPU whose counters it has; -1: what was counted on no GPU
  size_t gpus;    // rows of GPUs that follow
} model_row;

typedef struct model_rows {
  model_row *items; // by name and version
  size_t count, capacity;
  model_copy *copies;
  size_t copy_count;
  size_t copy_capacity;
  bool failed;
} model_rows;

// False when memory is short: rows may be missing. Holds no lock that requests take: the models are
// referenced until model_rows_fini.
bool model_rows_init(model_rows *rows, live_models *live);
void model_rows_fini(model_rows *rows);

#endif
