// SPDX-License-Identifier: Apache-2.0
// The batches and slots of each instance, as the configuration of a sequence batcher says.
#ifndef NEREID_CORE_SEQUENCE_BATCHES_H
#define NEREID_CORE_SEQUENCE_BATCHES_H

#include "base/error.h"
#include "config/config.h"
#include "schedule/scheduler.h"

#include <stdbool.h>
#include <stdint.h>

// `has_rows`: the direct strategy, where a slot is a row of the batch.
uint32_t sequence_batches_slots(const Inference__ModelConfig *config, bool has_rows);
// Fills `config` for an instance's scheduler; it borrows *sizes_owned, which the caller frees, also
// after an error.
error *sequence_batches_read(const Inference__ModelConfig *model, bool has_rows, uint32_t slots,
                             scheduler_config *config, uint32_t **sizes_owned);

#endif
