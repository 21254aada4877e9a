// SPDX-License-Identifier: Apache-2.0
// Which entries a cache of so many bytes holds: the least recently used go first. A policy: no
// lock, no clock; the caller has the memory of the entries.
#ifndef NEREID_CACHES_LRU_H
#define NEREID_CACHES_LRU_H

#include "base/list.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lru_entry {
  struct lru_entry *next; // of the same slot
  list_node node;
  uint64_t hash;
  slice key;    // lives as long as the entry
  size_t bytes; // all that it takes
} lru_entry;

typedef struct lru {
  lru_entry **slots;
  size_t slot_count; // a power of two
  size_t limit;      // bytes, the slots' included
  size_t bytes;      // taken or promised
  size_t count;      // entries
  list recent;       // the first was used last
} lru;

// False when memory is short.
bool lru_init(lru *l, size_t limit);
void lru_fini(lru *l); // without entries

// What one entry may take.
size_t lru_room(const lru *l);

// The entry, which counts as used now; or NULL.
lru_entry *lru_find(lru *l, slice key, uint64_t hash);

// Promises `bytes`, for an entry to come. False: there is not so much room; lru_evict makes some.
bool lru_promise(lru *l, size_t bytes);
// The bytes of an entry that has left, or a promise that is not kept.
void lru_return(lru *l, size_t bytes);
// Takes out the entry that was not used for the longest time: its bytes count until lru_return.
// NULL: there is none.
lru_entry *lru_evict(lru *l);

// Adds an entry, whose bytes were promised, as the one used last. Its key is not there.
void lru_add(lru *l, lru_entry *entry);

#endif
