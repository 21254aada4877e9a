// SPDX-License-Identifier: Apache-2.0
// Blocks of memory. Sizes of large blocks are rounded up, so that requests of about the same size
// can reuse them.
#include "base/blocks.h"

#include "base/checked.h"
#include "base/cleanup.h"
#include "base/thread.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STEP             ((size_t)256 << 10)
#define LARGE_PAGE       ((size_t)2 << 20)
#define LARGE_PAGES_FROM (2 * LARGE_PAGE)
#define KEPT_MAX         32
#define KEPT_BYTES       ((size_t)64 << 20)
#define KEPT_BLOCK_BYTES ((size_t)16 << 20) // of one: work on larger ones dwarfs new pages

typedef struct kept_block {
  void *memory;
  size_t size;
  bool old; // was kept at the last trim already
} kept_block;

static struct {
  pthread_mutex_t mutex; // guards the rest
  size_t limit;          // of kept and used bytes together; above it nothing is kept
  size_t used;           // bytes of large blocks in use
  kept_block blocks[KEPT_MAX];
  size_t count;
  size_t bytes;
} kept = {.mutex = PTHREAD_MUTEX_INITIALIZER};

// Touching the block then costs one fault for each 512 pages. The hint covers the whole mapping, as
// mremap needs it in one piece.
static void prefer_large_pages(void *memory, size_t size)
{
  if (size >= LARGE_PAGES_FROM)
    madvise(memory, size, MADV_HUGEPAGE);
}

static bool round_up(size_t size, size_t *rounded)
{
  if (!checked_add_size(size, STEP - 1, rounded))
    return false;
  *rounded -= *rounded % STEP;
  return true;
}

static void *remove_kept(size_t i)
{
  assert(lock_is_held(&kept.mutex) && i < kept.count && kept.bytes >= kept.blocks[i].size);
  void *memory = kept.blocks[i].memory;
  kept.bytes -= kept.blocks[i].size;
  kept.blocks[i] = kept.blocks[--kept.count];
  return memory;
}

// Could `more` bytes be kept?
static bool has_room(size_t more)
{
  assert(lock_is_held(&kept.mutex));
  return kept.used <= kept.limit && kept.bytes <= kept.limit - kept.used &&
         more <= kept.limit - kept.used - kept.bytes;
}

// A user's large block changes from `before` to `now` bytes. Frees kept blocks until both together
// are within the limit.
static void count_used(size_t before, size_t now)
{
  assert(lock_is_held(&kept.mutex) && kept.used >= before);
  kept.used = kept.used - before + now;
  while (kept.count > 0 && !has_room(0)) {
    size_t size = kept.blocks[kept.count - 1].size;
    munmap(remove_kept(kept.count - 1), size);
  }
}

static void *take_kept(size_t size)
{
  LOCK_SCOPE(&kept.mutex);
  void *memory = NULL;
  for (size_t i = 0; i < kept.count && memory == NULL; i++)
    if (kept.blocks[i].size == size)
      memory = remove_kept(i);
  count_used(0, size);
  return memory;
}

static void resize_used(size_t before, size_t now)
{
  LOCK_SCOPE(&kept.mutex);
  count_used(before, now);
}

// False: the block is not kept, and the caller unmaps it.
static bool keep(void *memory, size_t size)
{
  LOCK_SCOPE(&kept.mutex);
  count_used(size, 0);
  if (kept.count == KEPT_MAX || size > KEPT_BLOCK_BYTES || size > KEPT_BYTES - kept.bytes ||
      !has_room(size))
    return false;
  kept.blocks[kept.count++] = (kept_block){.memory = memory, .size = size};
  kept.bytes += size;
  return true;
}

static void *map_pages(size_t size)
{
  void *memory =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

// A block for large pages begins at the boundary of one: map more, then unmap both ends.
static void *map(size_t size)
{
  size_t more;
  if (size < LARGE_PAGES_FROM)
    return map_pages(size);
  if (!checked_add_size(size, LARGE_PAGE, &more))
    return NULL;
  char *memory = map_pages(more);
  if (memory == NULL)
    return NULL;
  size_t before = (LARGE_PAGE - (uintptr_t)memory % LARGE_PAGE) % LARGE_PAGE;
  if (before > 0)
    munmap(memory, before);
  munmap(memory + before + size, LARGE_PAGE - before);
  prefer_large_pages(memory + before, size);
  return memory + before;
}

// *used: the block may hold an earlier owner's bytes.
static void *allocate(size_t size, bool *used)
{
  void *memory;
  size_t rounded;
  *used = true;
  if (size < BLOCK_LARGE_BYTES)
    return posix_memalign(&memory, BLOCK_ALIGNMENT, size) == 0 ? memory : NULL;
  if (!round_up(size, &rounded))
    return NULL;
  memory = take_kept(rounded);
  *used = memory != NULL;
  if (memory == NULL)
    memory = map(rounded);
  if (memory == NULL)
    resize_used(rounded, 0);
  return memory;
}

void *block_allocate(size_t size)
{
  bool used;
  return allocate(size, &used);
}

void *block_allocate_zeroed(size_t size)
{
  bool used;
  void *memory = allocate(size, &used);
  if (memory != NULL && used)
    memset(memory, 0, size);
  return memory;
}

// Moves pages instead of bytes; NULL when the kernel does not.
static void *remap(void *memory, size_t old_size, size_t size)
{
  size_t old_rounded;
  size_t rounded;
  if (!round_up(old_size, &old_rounded) || !round_up(size, &rounded))
    return NULL;
  void *moved = mremap(memory, old_rounded, rounded, MREMAP_MAYMOVE);
  if (moved == MAP_FAILED)
    return NULL;
  prefer_large_pages(moved, rounded);
  resize_used(old_rounded, rounded);
  return moved;
}

void *block_grow(void *memory, size_t old_size, size_t size)
{
  void *grown = old_size >= BLOCK_LARGE_BYTES ? remap(memory, old_size, size) : NULL;
  if (grown != NULL)
    return grown;
  grown = block_allocate(size);
  if (grown == NULL)
    return NULL;
  memcpy(grown, memory, old_size);
  block_free(memory, old_size);
  return grown;
}

void block_free(void *memory, size_t size)
{
  size_t rounded;
  if (memory == NULL)
    return;
  if (size < BLOCK_LARGE_BYTES)
    free(memory);
  else if (round_up(size, &rounded) && !keep(memory, rounded))
    munmap(memory, rounded);
}

void block_discard(void *memory, size_t block_size, char *begin, size_t size)
{
  if (block_size < BLOCK_LARGE_BYTES || block_size <= KEPT_BLOCK_BYTES)
    return;
  // Whole large pages only; the block begins at the boundary of one.
  size_t offset = (size_t)(begin - (char *)memory);
  size_t first = offset + (LARGE_PAGE - offset % LARGE_PAGE) % LARGE_PAGE;
  size_t end = offset + size - (offset + size) % LARGE_PAGE;
  if (first < end)
    madvise((char *)memory + first, end - first, MADV_DONTNEED);
}

void blocks_keep(size_t limit)
{
  LOCK_SCOPE(&kept.mutex);
  kept.limit = limit;
}

bool blocks_trim(void)
{
  LOCK_SCOPE(&kept.mutex);
  for (size_t i = kept.count; i-- > 0;) {
    size_t size = kept.blocks[i].size;
    if (kept.blocks[i].old)
      munmap(remove_kept(i), size);
    else
      kept.blocks[i].old = true;
  }
  return kept.count > 0;
}
