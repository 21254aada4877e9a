// SPDX-License-Identifier: Apache-2.0
// Direct sequence batching: each sequence has its row of the batch. Called by core/execute.c on the
// thread that executes.
#ifndef NEREID_CORE_SEQUENCE_ROWS_H
#define NEREID_CORE_SEQUENCE_ROWS_H

#include "core/instance.h"

// Moves the `count` requests of the batch that begins at `first` to the rows of their sequences,
// and puts null requests into empty rows between. *arranged: the number of rows. Errors:
// UNAVAILABLE; the requests are where they were.
error *sequence_rows_arrange(instance *i, size_t first, uint32_t count, uint32_t *arranged);

#endif
