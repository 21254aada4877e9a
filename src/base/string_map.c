// SPDX-License-Identifier: Apache-2.0
// Open addressing over an insertion-ordered array of entries. The hash is salted once per process,
// so that names sent from outside cannot be chosen to collide.
#include "base/string_map.h"

#include "base/clock.h"
#include "base/text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static uint64_t salt;
static pthread_once_t salt_once = PTHREAD_ONCE_INIT;

static void make_salt(void)
{
  if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) != (ssize_t)sizeof(salt))
    salt = clock_realtime_ns() ^ (uint64_t)(uintptr_t)&salt;
}

uint64_t string_map_hash(slice key)
{
  pthread_once(&salt_once, make_salt);
  uint64_t hash = 0xcbf29ce484222325u ^ salt;
  for (size_t i = 0; i < key.size; i++) {
    hash ^= (unsigned char)key.data[i];
    hash *= 0x100000001b3u;
  }
  hash ^= hash >> 32;
  return hash * 0x9e3779b97f4a7c15u;
}

void string_map_fini(string_map *map)
{
  for (size_t i = 0; i < map->entry_count; i++)
    free(map->entries[i].key);
  free(map->entries);
  free(map->slots);
  *map = (string_map){0};
}

// The slot that holds `key`, or the free one where it belongs. Needs slot_count > 0.
static uint32_t *find_slot(const string_map *map, slice key, uint64_t hash)
{
  size_t mask = map->slot_count - 1;
  for (size_t i = hash >> 32 & mask;; i = (i + 1) & mask) {
    uint32_t *slot = &map->slots[i];
    if (*slot == 0)
      return slot;
    const string_map_entry *entry = &map->entries[*slot - 1];
    if (entry->hash == hash && entry->key != NULL &&
        slice_equal((slice){entry->key, entry->key_size}, key))
      return slot;
  }
}

void *string_map_get(const string_map *map, slice key)
{
  if (map->slot_count == 0)
    return NULL;
  uint32_t slot = *find_slot(map, key, string_map_hash(key));
  return slot == 0 ? NULL : map->entries[slot - 1].value;
}

// Drops removed entries and rebuilds the slots for at least `wanted` live entries.
static bool rebuild(string_map *map, size_t wanted)
{
  size_t slot_count = 16;
  while (slot_count < wanted * 2)
    slot_count *= 2;
  string_map_entry *entries = calloc(slot_count / 2, sizeof(*entries));
  uint32_t *slots = calloc(slot_count, sizeof(*slots));
  if (entries == NULL || slots == NULL) {
    free(entries);
    free(slots);
    return false;
  }
  string_map next = {.entries = entries,
                     .entry_capacity = slot_count / 2,
                     .slots = slots,
                     .slot_count = slot_count};
  for (size_t i = 0; i < map->entry_count; i++) {
    string_map_entry *entry = &map->entries[i];
    if (entry->key == NULL)
      continue;
    next.entries[next.entry_count++] = *entry;
    *find_slot(&next, (slice){entry->key, entry->key_size}, entry->hash) =
        (uint32_t)next.entry_count;
    next.live_count++;
  }
  free(map->entries);
  free(map->slots);
  *map = next;
  return true;
}

bool string_map_put(string_map *map, slice key, void *value)
{
  uint64_t hash = string_map_hash(key);
  if (map->slot_count > 0) {
    uint32_t slot = *find_slot(map, key, hash);
    if (slot != 0) {
      map->entries[slot - 1].value = value;
      return true;
    }
  }
  if (map->entry_count == map->entry_capacity && !rebuild(map, map->live_count + 1))
    return false;
  char *copy = text_copy(key);
  if (copy == NULL)
    return false;
  map->entries[map->entry_count++] = (string_map_entry){copy, key.size, hash, value};
  *find_slot(map, key, hash) = (uint32_t)map->entry_count;
  map->live_count++;
  return true;
}

void *string_map_remove(string_map *map, slice key)
{
  if (map->slot_count == 0)
    return NULL;
  uint32_t slot = *find_slot(map, key, string_map_hash(key));
  if (slot == 0)
    return NULL;
  // The slot stays in the probe chain, pointing at an entry without a key, until the next rebuild.
  string_map_entry *entry = &map->entries[slot - 1];
  void *value = entry->value;
  free(entry->key);
  *entry = (string_map_entry){.hash = entry->hash};
  map->live_count--;
  return value;
}

string_map_entry *string_map_walk(const string_map *map, size_t *position)
{
  while (*position < map->entry_count) {
    string_map_entry *entry = &map->entries[(*position)++];
    if (entry->key != NULL)
      return entry;
  }
  return NULL;
}
