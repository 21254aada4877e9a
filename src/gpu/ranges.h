// SPDX-License-Identifier: Apache-2.0
// Tracks which parts of address ranges are taken: a two-level segregated fit (TLSF). Its tables are
// in host memory, so the addresses may be a device's. A policy: no lock, no memory but its tables,
// no access to the addresses.
#ifndef NEREID_GPU_RANGES_H
#define NEREID_GPU_RANGES_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANGES_ALIGNMENT 256 // of addresses handed out, and of sizes

typedef struct ranges ranges;

error *ranges_new(ranges **result);
void ranges_free(ranges *r); // also with ranges still taken
// Adds the free addresses [base, base + bytes).
error *ranges_add(ranges *r, uintptr_t base, size_t bytes);
// *address 0: no room. UNAVAILABLE: the tables could not grow.
error *ranges_take(ranges *r, size_t bytes, uintptr_t *address);
// `address` must come from ranges_take; asserted.
void ranges_give_back(ranges *r, uintptr_t address);
size_t ranges_total(const ranges *r);
size_t ranges_used(const ranges *r);
size_t ranges_largest_free(const ranges *r);

#endif
