// SPDX-License-Identifier: Apache-2.0
// Decides which entries a cache of limited size holds: the least recently used go first. A policy:
// no lock, no clock; the caller owns the entries' memory.
#ifndef NEREID_CACHES_LRU_H
#define NEREID_CACHES_LRU_H

#include "base/list.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lru_entry {
  struct lru_entry *next; // in the same slot
  struct lru_entry **at;  // the pointer to this entry: the slot's, or the `next` before it
  list_node node;
  uint64_t hash;
  slice key;    // lives as long as the entry
  size_t bytes; // the whole entry
} lru_entry;

typedef struct lru_slot {
  lru_entry *first;
  uint64_t seen; // a bit for each hash in the slot, and maybe for some that have left
} lru_slot;

typedef struct lru {
  lru_slot *slots;
  size_t slot_count; // a power of two
  size_t limit;      // bytes, including the slots
  size_t bytes;      // taken or promised
  size_t count;      // entries
  list recent;       // the most recently used is first
} lru;

// False when memory is short.
bool lru_init(lru *l, size_t limit);
void lru_fini(lru *l); // all entries must be out

// The most that one entry may take.
size_t lru_room(const lru *l);

// Finds an entry and marks it as used now; or NULL.
lru_entry *lru_find(lru *l, slice key, uint64_t hash);

// Promises `bytes` to a new entry. False: not enough room; lru_evict frees some.
bool lru_promise(lru *l, size_t bytes);
// Returns the bytes of an entry that was taken out, or of an unused promise.
void lru_return(lru *l, size_t bytes);
// Takes out the least recently used entry; its bytes count until lru_return. NULL: no entry.
lru_entry *lru_evict(lru *l);

// Adds an entry with promised bytes as the most recently used. Its key must not be present.
void lru_add(lru *l, lru_entry *entry);

#endif
