// SPDX-License-Identifier: Apache-2.0
// A region is cut into extents, free or in a block, without gaps; two free ones are never adjacent.
// They form a treap ordered by offset, in which each extent knows the largest free extent below it.
// The lowest place that fits, a block by its offset, and the neighbours for joining each take O(log
// extents). Low places are used first, so that touched pages are reused and high pages stay
// untouched.
#include "channel_memory.h"

#include "channel_align.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NONE          0
#define FIRST_EXTENTS 64
#define TRIM_AT_ONCE  (1 << 20) // bytes given back while the lock is held
#define BITS          64        // in a word of `touched`

struct channel_extent {
  uint64_t offset;
  uint64_t size;
  uint64_t largest_free; // of this extent and those below it in the tree
  uint32_t left, right;
  uint32_t priority; // not less than its children's
  bool in_block;
};

// ---- the tree; an extent is named by its index ----

static uint64_t largest_free(const channel_memory_map *map, uint32_t at)
{
  return at == NONE ? 0 : map->extents[at].largest_free;
}

static void refresh(channel_memory_map *map, uint32_t at)
{
  channel_extent *extent = &map->extents[at];
  uint64_t most = extent->in_block ? 0 : extent->size;
  if (largest_free(map, extent->left) > most)
    most = largest_free(map, extent->left);
  if (largest_free(map, extent->right) > most)
    most = largest_free(map, extent->right);
  extent->largest_free = most;
}

// Joins two trees; everything in `left` is before everything in `right`.
static uint32_t join(channel_memory_map *map, uint32_t left, uint32_t right)
{
  if (left == NONE || right == NONE)
    return left == NONE ? right : left;
  uint32_t top;
  if (map->extents[left].priority >= map->extents[right].priority) {
    top = left;
    map->extents[top].right = join(map, map->extents[top].right, right);
  } else {
    top = right;
    map->extents[top].left = join(map, left, map->extents[top].left);
  }
  refresh(map, top);
  return top;
}

// Splits a tree into extents that begin before `offset` and the rest.
static void split(channel_memory_map *map, uint32_t at, uint64_t offset, uint32_t *before,
                  uint32_t *behind)
{
  if (at == NONE) {
    *before = *behind = NONE;
    return;
  }
  channel_extent *extent = &map->extents[at];
  if (extent->offset < offset) {
    split(map, extent->right, offset, &extent->right, behind);
    *before = at;
  } else {
    split(map, extent->left, offset, before, &extent->left);
    *behind = at;
  }
  refresh(map, at);
}

static uint32_t find(const channel_memory_map *map, uint64_t offset)
{
  uint32_t at = map->root;
  while (at != NONE && map->extents[at].offset != offset)
    at = offset < map->extents[at].offset ? map->extents[at].left : map->extents[at].right;
  return at;
}

// The last extent that begins before `offset`.
static uint32_t find_before(const channel_memory_map *map, uint64_t offset)
{
  uint32_t at = map->root, found = NONE;
  while (at != NONE) {
    const bool before = map->extents[at].offset < offset;
    found = before ? at : found;
    at = before ? map->extents[at].right : map->extents[at].left;
  }
  return found;
}

// Call it after the extent at `offset` has changed.
static void refresh_path(channel_memory_map *map, uint32_t at, uint64_t offset)
{
  const channel_extent *extent = &map->extents[at];
  if (extent->offset != offset)
    refresh_path(map, offset < extent->offset ? extent->left : extent->right, offset);
  refresh(map, at);
}

static uint64_t begin_in(const channel_memory_map *map, const channel_extent *extent, uint64_t size)
{
  const uint64_t alignment = size >= CHANNEL_LARGE ? map->page : CHANNEL_ALIGNMENT;
  return (extent->offset + alignment - 1) & ~(alignment - 1);
}

static bool fits(const channel_memory_map *map, const channel_extent *extent, uint64_t size)
{
  const uint64_t lost = begin_in(map, extent, size) - extent->offset;
  return !extent->in_block && extent->size >= lost && extent->size - lost >= size;
}

// The lowest free extent that takes `size` bytes. Only extents that are too small after alignment
// are searched in vain.
static uint32_t find_room(const channel_memory_map *map, uint32_t at, uint64_t size)
{
  if (at == NONE || map->extents[at].largest_free < size)
    return NONE;
  const uint32_t low = find_room(map, map->extents[at].left, size);
  if (low != NONE)
    return low;
  return fits(map, &map->extents[at], size) ? at : find_room(map, map->extents[at].right, size);
}

// ---- extents ----

static void set_aside(channel_memory_map *map, uint32_t at)
{
  map->extents[at].left = map->unused;
  map->unused = at;
}

// Makes sure that two extents are available: a block can cut a free extent in three.
static bool reserve_two(channel_memory_map *map)
{
  if (map->unused != NONE && map->extents[map->unused].left != NONE)
    return true;
  const uint32_t capacity = map->capacity == 0 ? FIRST_EXTENTS : map->capacity * 2;
  if (capacity > UINT32_MAX / 2)
    return false;
  channel_extent *extents = reallocarray(map->extents, capacity, sizeof(extents[0]));
  if (extents == NULL)
    return false;
  map->extents = extents;
  memset(extents + map->capacity, 0, (capacity - map->capacity) * sizeof(extents[0]));
  for (uint32_t i = capacity - 1; i >= map->capacity && i != NONE; i--)
    set_aside(map, i);
  map->capacity = capacity;
  return true;
}

static void add(channel_memory_map *map, uint64_t offset, uint64_t size, bool in_block)
{
  const uint32_t at = map->unused;
  assert(at != NONE && size > 0);
  map->unused = map->extents[at].left;
  map->random ^= map->random << 13;
  map->random ^= map->random >> 17;
  map->random ^= map->random << 5;
  map->extents[at] = (channel_extent){
      .offset = offset, .size = size, .priority = map->random, .in_block = in_block};
  refresh(map, at);
  uint32_t before, behind;
  split(map, map->root, offset, &before, &behind);
  map->root = join(map, join(map, before, at), behind);
}

static void drop(channel_memory_map *map, uint32_t gone)
{
  uint32_t before, middle, behind;
  const uint64_t offset = map->extents[gone].offset;
  split(map, map->root, offset, &before, &middle);
  split(map, middle, offset + 1, &middle, &behind);
  map->root = join(map, before, behind);
  set_aside(map, gone);
}

// ---- pages ----

static bool is_touched(const channel_memory_map *map, size_t page)
{
  return (map->touched[page / BITS] >> page % BITS & 1) != 0;
}

static void touch(channel_memory_map *map, uint64_t offset, uint64_t size)
{
  const size_t end = (offset + size + map->page - 1) / map->page;
  for (size_t page = offset / map->page; page < end; page++) {
    uint64_t *word = &map->touched[page / BITS];
    if (page % BITS == 0 && end - page >= BITS) {
      map->touched_pages += (size_t)(BITS - __builtin_popcountll(*word));
      *word = UINT64_MAX;
      page += BITS - 1;
    } else if (!is_touched(map, page)) {
      map->touched_pages++;
      *word |= UINT64_C(1) << page % BITS;
    }
  }
  if (end > map->touched_end)
    map->touched_end = end;
}

static void untouch(channel_memory_map *map, size_t page, size_t end)
{
  assert(page <= end && map->touched_pages >= end - page);
  map->touched_pages -= end - page;
  for (; page < end; page++)
    map->touched[page / BITS] &= ~(UINT64_C(1) << page % BITS);
}

// The first page in [page, end) that is touched, or `end`.
static size_t next_touched(const channel_memory_map *map, size_t page, size_t end)
{
  while (page < end && !is_touched(map, page))
    page += map->touched[page / BITS] >> page % BITS == 0 ? BITS - page % BITS : 1;
  return page < end ? page : end;
}

static size_t least(size_t a, size_t b)
{
  return a < b ? a : b;
}

// ---- the interface ----

int channel_memory_init(channel_memory_map *map, void *region, size_t size)
{
  *map = (channel_memory_map){.region = region,
                              .size = size,
                              .most_used = size,
                              .page = (size_t)sysconf(_SC_PAGESIZE),
                              .random = 2463534242U,
                              .lock = PTHREAD_MUTEX_INITIALIZER};
  map->touched = calloc(size / map->page / BITS + 1, sizeof(map->touched[0]));
  if (map->touched == NULL || !reserve_two(map)) {
    channel_memory_fini(map);
    return ENOMEM;
  }
  if (size > 0)
    add(map, 0, size, false);
  return 0;
}

void channel_memory_fini(channel_memory_map *map)
{
  free(map->extents);
  free(map->touched);
  map->extents = NULL;
  map->touched = NULL;
}

static bool allocate(channel_memory_map *map, uint64_t size, uint64_t *offset)
{
  if (!reserve_two(map))
    return false;
  const uint32_t at = find_room(map, map->root, size);
  if (at == NONE)
    return false;
  channel_extent *extent = &map->extents[at];
  const uint64_t free_at = extent->offset, begin = begin_in(map, extent, size);
  const uint64_t end = free_at + extent->size;
  if (begin == free_at) {
    extent->in_block = true;
    extent->size = size;
  } else {
    extent->size = begin - free_at;
  }
  refresh_path(map, map->root, free_at);
  if (begin != free_at)
    add(map, begin, size, true);
  if (begin + size < end)
    add(map, begin + size, end - begin - size, false);
  touch(map, begin, size);
  map->used += size;
  assert(map->used <= map->most_used && end <= map->size);
  *offset = begin;
  return true;
}

bool channel_memory_allocate(channel_memory_map *map, size_t size, uint64_t *offset)
{
  if (size > map->size)
    return false;
  // An empty block has an offset of its own, too.
  const uint64_t rounded = size == 0 ? CHANNEL_ALIGNMENT : channel_aligned(size);
  pthread_mutex_lock(&map->lock);
  const bool found = map->most_used > map->used && rounded <= map->most_used - map->used &&
                     allocate(map, rounded, offset);
  pthread_mutex_unlock(&map->lock);
  return found;
}

void channel_memory_limit(channel_memory_map *map, size_t most_used)
{
  pthread_mutex_lock(&map->lock);
  map->most_used = most_used;
  pthread_mutex_unlock(&map->lock);
}

static void release(channel_memory_map *map, uint32_t at)
{
  channel_extent *extent = &map->extents[at];
  assert(extent->in_block && map->used >= extent->size);
  map->used -= extent->size;
  extent->in_block = false;
  const uint32_t behind = find(map, extent->offset + extent->size);
  if (behind != NONE && !map->extents[behind].in_block) {
    extent->size += map->extents[behind].size;
    drop(map, behind);
  }
  const uint32_t before = find_before(map, extent->offset);
  if (before != NONE && !map->extents[before].in_block) {
    map->extents[before].size += extent->size;
    drop(map, at);
    at = before;
  }
  refresh_path(map, map->root, map->extents[at].offset);
}

bool channel_memory_release(channel_memory_map *map, uint64_t offset)
{
  pthread_mutex_lock(&map->lock);
  const uint32_t at = find(map, offset);
  const bool in_use = at != NONE && map->extents[at].in_block;
  if (in_use)
    release(map, at);
  pthread_mutex_unlock(&map->lock);
  return in_use;
}

// Gives back the first run of touched free pages from *page on, after keeping `*keep` bytes of
// them. Moves *page on; the walk is over when it reaches map->touched_end.
static size_t trim_some(channel_memory_map *map, size_t *page, size_t *keep)
{
  *page = next_touched(map, *page, map->touched_end);
  if (*page >= map->touched_end)
    return 0;
  const uint64_t at = *page * map->page;
  const uint32_t number = find_before(map, at + 1);
  const channel_extent *extent = &map->extents[number];
  const uint64_t extent_end = extent->offset + extent->size;
  const size_t free_end = extent_end / map->page;
  if (extent->in_block || free_end <= *page) { // a block covers a part of the page
    *page = extent->in_block ? (extent_end + map->page - 1) / map->page : *page + 1;
    return 0;
  }
  size_t end = *page;
  const size_t most = least(free_end, least(map->touched_end, *page + TRIM_AT_ONCE / map->page));
  while (end < most && is_touched(map, end))
    end++;
  const size_t kept = least(*keep / map->page, end - *page);
  *keep -= kept * map->page;
  const size_t first = *page + kept, bytes = (end - first) * map->page;
  *page = end;
  if (bytes == 0 || map->region == NULL ||
      madvise(map->region + first * map->page, bytes, MADV_REMOVE) != 0)
    return 0;
  untouch(map, first, end);
  return bytes;
}

size_t channel_memory_trim(channel_memory_map *map, size_t keep)
{
  size_t given = 0, page = 0;
  bool more = true;
  while (more) { // unlock between steps: giving back gigabytes takes a while
    pthread_mutex_lock(&map->lock);
    given += trim_some(map, &page, &keep);
    more = page < map->touched_end;
    pthread_mutex_unlock(&map->lock);
  }
  return given;
}

void channel_memory_count(channel_memory_map *map, size_t *used, size_t *kept)
{
  pthread_mutex_lock(&map->lock);
  *used = map->used;
  *kept = map->touched_pages * map->page - map->used;
  pthread_mutex_unlock(&map->lock);
}
