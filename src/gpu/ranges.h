// SPDX-License-Identifier: Apache-2.0
// Which parts of ranges of addresses are taken: a two-level segregated fit (TLSF), whose books are
// in host memory, so that the addresses may be a device's. A policy: allocates no memory but its
// books', has no lock, touches nothing at the addresses.
#ifndef NEREID_GPU_RANGES_H
#define NEREID_GPU_RANGES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANGES_ALIGNMENT 256 // of what is handed out, and of sizes

typedef struct ranges ranges;

error *ranges_new(ranges **result);
void ranges_free(ranges *r); // whatever is taken
// Adds addresses [base, base + bytes) of which all are free.
error *ranges_add(ranges *r, uintptr_t base, size_t bytes);
// *address 0: there is no room. UNAVAILABLE: the books could not grow.
error *ranges_take(ranges *r, size_t bytes, uintptr_t *address);
// `address` came from ranges_take; asserted.
void ranges_give_back(ranges *r, uintptr_t address);
size_t ranges_total(const ranges *r);
size_t ranges_used(const ranges *r);
size_t ranges_largest_free(const ranges *r);

#endif
