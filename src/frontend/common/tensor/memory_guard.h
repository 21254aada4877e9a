// SPDX-License-Identifier: Apache-2.0
// Mapped memory that another process may take away: when the owner of a file makes it smaller, a
// thread that touches the lost pages gets SIGBUS. In a watched range the handler then puts zeroed
// pages there and the thread goes on; the request's owner asks afterwards whether the range broke.
// The first watched range sets the process's SIGBUS handler, which passes other SIGBUS on to the
// handler before it. Thread-safe.
//
// Threads must not block SIGBUS: the kernel ends a process whose thread touches a lost page with
// SIGBUS blocked (base/thread.h).
#ifndef NEREID_FRONTEND_COMMON_TENSOR_MEMORY_GUARD_H
#define NEREID_FRONTEND_COMMON_TENSOR_MEMORY_GUARD_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct guarded_range guarded_range;

// Watches `size` bytes at `begin`, whole pages. Errors: UNAVAILABLE when memory is short, INTERNAL
// when the handler cannot be set.
error *memory_guard_watch(void *begin, size_t size, guarded_range **range);

// Was a lost page touched? From that page to its end the range is private memory now.
bool guarded_range_is_broken(const guarded_range *range);

// Call before the range is unmapped, when no thread touches it any more. NULL is allowed.
void memory_guard_forget(guarded_range *range);

#endif
