// SPDX-License-Identifier: Apache-2.0
// Memory that others may take away: the pages of a file that its owner makes smaller are gone, and
// whoever touches them gets SIGBUS. Pages of a watched range are replaced by zeroes then, so that
// backends, which know nothing of this, go on; who made the request asks afterwards whether the
// range broke. The first watched range sets the process's SIGBUS handler; a SIGBUS elsewhere goes
// to the one that was there before. Thread-safe.
//
// Threads must not block SIGBUS: the kernel ends a process that touches such a page with it blocked
// (base/thread.h).
#ifndef NEREID_FRONTEND_COMMON_TENSOR_MEMORY_GUARD_H
#define NEREID_FRONTEND_COMMON_TENSOR_MEMORY_GUARD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct guarded_range guarded_range;

// Watches `size` bytes at `begin`: whole pages. Errors: UNAVAILABLE when memory is short, INTERNAL
// when there can be no handler.
error *memory_guard_watch(void *begin, size_t size, guarded_range **range);

// Pages were gone when somebody touched them: from there to its end the range is private memory.
bool guarded_range_is_broken(const guarded_range *range);

// Before the range is unmapped; nobody touches it any more. NULL is allowed.
void memory_guard_forget(guarded_range *range);

#endif
