// SPDX-License-Identifier: Apache-2.0
// Checks that a treelite checkpoint has as many bytes as its sizes say. treelite itself allocates
// memory by each size, or makes trees without end, before it reads. Load threads.
#ifndef NEREID_FIL_CHECKPOINT_H
#define NEREID_FIL_CHECKPOINT_H

#include "framework.h"

// Reads the open file from its beginning, without moving its position. Versions with an unknown
// layout pass.
TRITONSERVER_Error *fil_checkpoint_check(int file);

#endif
