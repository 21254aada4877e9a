// The copies of a version during a reload may have different outputs: they are summed by name.
#include "core/output_counts.h"

#include <stdlib.h>
#include <string.h>

static output_count *find(output_counts *counts, const char *output)
{
  for (size_t i = 0; i < counts->count; i++)
    if (strcmp(counts->items[i].output, output) == 0)
      return &counts->items[i];
  return NULL;
}

static output_count *append(output_counts *counts, const char *output)
{
  output_count *grown = reallocarray(counts->items, counts->count + 1, sizeof(*grown));
  if (grown == NULL)
    return NULL;
  counts->items = grown;
  char *name = strdup(output);
  if (name == NULL)
    return NULL;
  grown[counts->count] = (output_count){.output = name};
  return &grown[counts->count++];
}

bool output_counts_add(output_counts *counts, const model *m)
{
  const char *output;
  uint64_t more;
  for (size_t i = 0; model_output_mismatches(m, i, &output, &more); i++) {
    if (more == 0)
      continue;
    output_count *sum = find(counts, output);
    if (sum == NULL)
      sum = append(counts, output);
    if (sum == NULL)
      return false;
    sum->count += more;
  }
  return true;
}

void output_counts_fini(output_counts *counts)
{
  for (size_t i = 0; i < counts->count; i++)
    free(counts->items[i].output);
  free(counts->items);
}
