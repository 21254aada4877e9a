// SPDX-License-Identifier: Apache-2.0
// A map from strings to pointers, in insertion order when walked. Keys are copied, values are the
// caller's. Not thread-safe. Look-up is O(1) on average: a salted FNV-1a hash and linear probing.
#ifndef NEREID_BASE_STRING_MAP_H
#define NEREID_BASE_STRING_MAP_H

#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct string_map_entry {
  char *key; // owned by the map; NULL marks a removed entry
  size_t key_size;
  uint64_t hash;
  void *value;
} string_map_entry;

typedef struct string_map {
  string_map_entry *entries; // insertion order
  size_t entry_count;        // removed ones included
  size_t entry_capacity;
  uint32_t *slots; // index into entries + 1; 0 is free
  size_t slot_count;
  size_t live_count;
} string_map;

void string_map_fini(string_map *map);                  // releases keys, not values
void *string_map_get(const string_map *map, slice key); // NULL when absent
bool string_map_put(string_map *map, slice key,
                    void *value);                    // adds or replaces; false when memory is short
void *string_map_remove(string_map *map, slice key); // the value that was there, or NULL

uint64_t
string_map_hash(slice key); // the salted hash, for other tables keyed by strings from outside

// for (size_t i = 0; (entry = string_map_walk(map, &i)) != NULL;) …
string_map_entry *string_map_walk(const string_map *map, size_t *position);

#endif
