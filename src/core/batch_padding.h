// SPDX-License-Identifier: Apache-2.0
// Variable shapes (docs/variable_shapes.md): the requests of a batch are padded to one length
// before the backend gets them. Called by core/execute.c, on the thread that executes.
#ifndef NEREID_CORE_BATCH_PADDING_H
#define NEREID_CORE_BATCH_PADDING_H

#include "core/instance.h"

// Pads `count` requests of i->batch from `first` on. Returns how many are left; requests that
// cannot be padded are answered.
uint32_t pad_batch(instance *i, size_t first, uint32_t count);

#endif
