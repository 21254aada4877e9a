// SPDX-License-Identifier: Apache-2.0
// See sequence_batches.h.
#include "core/sequence_batches.h"

#include <stdlib.h>

#define MAX_ROWS 65536 // slots of an instance: as many as it can execute at once (core/instance.c)

uint32_t sequence_batches_slots(const Inference__ModelConfig *config, bool has_rows)
{
  uint32_t rows = config->max_batch_size > 0 ? (uint32_t)config->max_batch_size : 1;
  if (!has_rows && config->sequence_batching->oldest->max_candidate_sequences > 0)
    return (uint32_t)config->sequence_batching->oldest->max_candidate_sequences;
  return has_rows && rows > MAX_ROWS ? MAX_ROWS : rows;
}

// Fills `sizes`, which has room for `rows`, with the batch sizes that use enough of the slots.
static size_t utilized_sizes(float least, uint32_t rows, uint32_t *sizes)
{
  size_t count = 0;
  for (uint32_t n = 1; n <= rows; n++)
    if ((float)n / (float)rows >= least)
      sizes[count++] = n;
  return count;
}

// Without a minimum utilization, waiting requests are executed at once.
static error *direct_config(const Inference__ModelSequenceBatching *batching, uint32_t rows,
                            scheduler_config *config, uint32_t **sizes)
{
  const Inference__ModelSequenceBatching__StrategyDirect *direct =
      batching->strategy_choice_case == INFERENCE__MODEL_SEQUENCE_BATCHING__STRATEGY_CHOICE_DIRECT
          ? batching->direct
          : NULL;
  if (direct == NULL || direct->minimum_slot_utilization == 0)
    return NULL;
  if ((*sizes = calloc(rows, sizeof(**sizes))) == NULL)
    return error_no_memory();
  config->preferred_batch_size_count =
      utilized_sizes(direct->minimum_slot_utilization, rows, *sizes);
  config->max_queue_delay_us = direct->max_queue_delay_microseconds;
  return NULL;
}

static error *oldest_config(const Inference__ModelSequenceBatching__StrategyOldest *oldest,
                            scheduler_config *config, uint32_t **sizes)
{
  size_t count = oldest->n_preferred_batch_size;
  if ((*sizes = calloc(count + 1, sizeof(**sizes))) == NULL)
    return error_no_memory();
  for (size_t i = 0; i < count; i++)
    (*sizes)[i] = (uint32_t)oldest->preferred_batch_size[i];
  config->preferred_batch_size_count = count;
  config->max_queue_delay_us = oldest->max_queue_delay_microseconds;
  return NULL;
}

error *sequence_batches_read(const Inference__ModelConfig *model, bool has_rows, uint32_t slots,
                             scheduler_config *config, uint32_t **sizes_owned)
{
  const Inference__ModelSequenceBatching *batching = model->sequence_batching;
  *config = (scheduler_config){.dynamic_batching = model->max_batch_size > 0,
                               .max_batch_size = (uint32_t)model->max_batch_size,
                               .arrivals_are_given = has_rows};
  RETURN_IF_ERROR(has_rows ? direct_config(batching, slots, config, sizes_owned)
                           : oldest_config(batching->oldest, config, sizes_owned));
  config->preferred_batch_sizes = *sizes_owned;
  return NULL;
}
