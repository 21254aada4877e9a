// SPDX-License-Identifier: Apache-2.0
// Whether a treelite checkpoint has the bytes that the sizes in it speak of. treelite itself asks
// for memory by each size, or makes trees without end, before it reads. Load threads.
#ifndef NEREID_FIL_CHECKPOINT_H
#define NEREID_FIL_CHECKPOINT_H

#include "framework.h"

// The file is open and is read from its beginning; where it stands is not changed. A version whose
// layout is not known passes.
TRITONSERVER_Error *fil_checkpoint_check(int file);

#endif
