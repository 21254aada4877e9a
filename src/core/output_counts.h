// How often outputs were not as configured, of all copies of a model version: for /metrics. Only
// outputs that were so at least once are here. The scraper's thread.
#ifndef NEREID_CORE_OUTPUT_COUNTS_H
#define NEREID_CORE_OUTPUT_COUNTS_H

#include "core/model.h"

#include <stddef.h>
#include <stdint.h>

typedef struct output_count {
  char *output; // owned
  uint64_t count;
} output_count;

typedef struct output_counts {
  output_count *items;
  size_t count;
} output_counts;

// Adds those of one copy. False: memory was short.
bool output_counts_add(output_counts *counts, const model *m);
void output_counts_fini(output_counts *counts);

#endif
