// SPDX-License-Identifier: Apache-2.0
// Tracks which parts of a region are in blocks. All of this is private memory: the other side
// cannot change it by writing to the region. Any thread.
#ifndef NEREID_CHANNEL_MEMORY_H
#define NEREID_CHANNEL_MEMORY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct channel_extent channel_extent;

typedef struct channel_memory_map {
  pthread_mutex_t lock; // guards all below
  uint8_t *region;      // whole pages; NULL: no pages are returned to the system
  size_t size;
  size_t page;
  channel_extent *extents; // extents[0] stands for "none"
  uint32_t capacity;
  uint32_t unused; // head of the list of extents that are not in the tree
  uint32_t root;   // of the tree of extents, by offset
  uint32_t random;
  uint64_t *touched; // one bit for each page that was in a block since it was last given back
  size_t touched_pages;
  size_t touched_end; // no page at or after this one is touched
  size_t used;        // bytes in blocks
  size_t most_used;
} channel_memory_map;

// `size` is a multiple of the page size. Gives 0 or ENOMEM.
int channel_memory_init(channel_memory_map *map, void *region, size_t size);
void channel_memory_fini(channel_memory_map *map);

bool channel_memory_allocate(channel_memory_map *map, size_t size, uint64_t *offset);
bool channel_memory_release(channel_memory_map *map, uint64_t offset);
void channel_memory_limit(channel_memory_map *map, size_t most_used);
size_t channel_memory_trim(channel_memory_map *map, size_t keep);
void channel_memory_count(channel_memory_map *map, size_t *used, size_t *kept);

#endif
