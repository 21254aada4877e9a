// SPDX-License-Identifier: Apache-2.0
// Bump allocation in blocks that double up to a bound; large requests get a block of their own
// size.
#include "base/arena.h"

#include "base/blocks.h"
#include "base/checked.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define ARENA_ALIGNMENT   16u
#define ARENA_BLOCK_BYTES 4096u

struct arena_block {
  arena_block *next;
  size_t size; // of all of it
  _Alignas(ARENA_ALIGNMENT) char data[];
};

static char *align_up(char *pointer)
{
  uintptr_t address = (uintptr_t)pointer;
  return pointer + ((ARENA_ALIGNMENT - address % ARENA_ALIGNMENT) % ARENA_ALIGNMENT);
}

void arena_init(arena *a, void *memory, size_t size)
{
  a->next = memory;
  a->end = size == 0 ? a->next : a->next + size;
  a->blocks = NULL;
}

void arena_fini(arena *a)
{
  while (a->blocks != NULL) {
    arena_block *block = a->blocks;
    a->blocks = block->next;
    block_free(block, block->size);
  }
  a->next = a->end = NULL;
}

static void *allocate_in_new_block(arena *a, size_t size)
{
  size_t room = size > ARENA_BLOCK_BYTES ? size : ARENA_BLOCK_BYTES;
  size_t total;
  if (!checked_add_size(room, sizeof(arena_block), &total))
    return NULL;
  arena_block *block = block_allocate(total);
  if (block == NULL)
    return NULL;
  block->size = total;
  block->next = a->blocks;
  a->blocks = block;
  // A block made for one large allocation does not replace the current one: the rest of that stays
  // usable.
  if (size <= ARENA_BLOCK_BYTES || a->next == NULL) {
    a->next = block->data + size;
    a->end = block->data + room;
  }
  return block->data;
}

void *arena_allocate(arena *a, size_t size)
{
  if (a->next != NULL) {
    assert(a->next <= a->end);
    char *start = align_up(a->next);
    if (start <= a->end && size <= (size_t)(a->end - start)) {
      a->next = start + size;
      return start;
    }
  }
  return allocate_in_new_block(a, size);
}

void *arena_allocate_tensor(arena *a, size_t size)
{
  size_t padded;
  bool fits = checked_add_size(size, BLOCK_ALIGNMENT, &padded);
  char *memory = fits ? arena_allocate(a, padded) : NULL;
  size_t misaligned = (uintptr_t)memory % BLOCK_ALIGNMENT;
  return memory == NULL || misaligned == 0 ? memory : memory + BLOCK_ALIGNMENT - misaligned;
}

void *arena_allocate_array(arena *a, size_t count, size_t size)
{
  size_t total;
  if (!checked_multiply_size(count, size, &total))
    return NULL;
  void *memory = arena_allocate(a, total);
  if (memory != NULL)
    memset(memory, 0, total);
  return memory;
}

void *arena_grow_array(arena *a, void *items, size_t count, size_t item_size)
{
  if ((count & (count - 1)) != 0)
    return items;
  size_t capacity = count == 0 ? 1 : 2 * count;
  void *moved = arena_allocate_array(a, capacity, item_size);
  if (moved != NULL && count > 0)
    memcpy(moved, items, count * item_size);
  return moved;
}

char *arena_copy_text(arena *a, slice text)
{
  size_t total;
  if (!checked_add_size(text.size, 1, &total))
    return NULL;
  char *copy = arena_allocate(a, total);
  if (copy == NULL)
    return NULL;
  if (text.size > 0)
    memcpy(copy, text.data, text.size);
  copy[text.size] = '\0';
  return copy;
}
