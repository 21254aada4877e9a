// SPDX-License-Identifier: Apache-2.0
// TLSF over addresses. Free blocks are in lists by size class: 32 classes for each power of two,
// with a bit for each non-empty list, so that a fit is found in a few instructions. Sizes are in
// units of RANGES_ALIGNMENT. The caller holds the lock.
#include "gpu/ranges.h"

#include "base/checked.h"
#include "base/list.h"

#include <stdlib.h>

#define CLASS_BITS  5
#define CLASSES     (1u << CLASS_BITS) // of a power of two
#define POWERS      52                 // as many as addresses have bits
#define SLAB_BLOCKS 64
#define FIRST_SLOTS 64 // a power of two

typedef struct block {
  list_node free_node;           // linked: free, or spare
  struct block *before, *behind; // by address; NULL at the ends of an added range
  struct block *chain;           // the next taken block in the same slot
  uintptr_t base;
  size_t units;
} block;

typedef struct slab {
  list_node node;
  block blocks[SLAB_BLOCKS];
} slab;

struct ranges {
  list classes[POWERS][CLASSES];
  uint64_t powers;          // bit: one of its classes has blocks
  uint32_t filled[POWERS];  // bit: the class has blocks
  list spares;              // unused block structures
  list slabs;               // memory of the block structures
  block **slots;            // taken blocks, by address
  size_t slot_count, taken; // slots: a power of two
  size_t total_units, used_units;
};

error *ranges_new(ranges **result)
{
  ranges *r = calloc(1, sizeof(*r));
  block **slots = calloc(FIRST_SLOTS, sizeof(*slots));
  if (r == NULL || slots == NULL) {
    free(r);
    free(slots);
    return error_no_memory();
  }
  for (size_t i = 0; i < POWERS; i++)
    for (size_t j = 0; j < CLASSES; j++)
      list_init(&r->classes[i][j]);
  list_init(&r->spares);
  list_init(&r->slabs);
  r->slots = slots;
  r->slot_count = FIRST_SLOTS;
  *result = r;
  return NULL;
}

void ranges_free(ranges *r)
{
  if (r == NULL)
    return;
  list_foreach_safe (slab, s, node, &r->slabs)
    free(s);
  free(r->slots);
  free(r);
}

// ---- classes ----

typedef struct size_class {
  unsigned power, index;
} size_class;

static unsigned highest_bit(size_t units)
{
  assert(units > 0);
  return 63u - (unsigned)__builtin_clzll(units);
}

// The class of a block of `units`.
static size_class class_of(size_t units)
{
  if (units < CLASSES)
    return (size_class){0, (unsigned)units};
  unsigned high = highest_bit(units);
  assert(high - CLASS_BITS + 1 < POWERS);
  return (size_class){high - CLASS_BITS + 1, (unsigned)(units >> (high - CLASS_BITS)) - CLASSES};
}

static void add_free(ranges *r, block *b)
{
  size_class c = class_of(b->units);
  list_prepend(&r->classes[c.power][c.index], &b->free_node);
  r->filled[c.power] |= 1u << c.index;
  r->powers |= UINT64_C(1) << c.power;
}

static void remove_free(ranges *r, block *b)
{
  size_class c = class_of(b->units);
  list_remove(&b->free_node);
  if (!list_is_empty(&r->classes[c.power][c.index]))
    return;
  r->filled[c.power] &= ~(1u << c.index);
  if (r->filled[c.power] == 0)
    r->powers &= ~(UINT64_C(1) << c.power);
}

static block *first_of(ranges *r, unsigned power, unsigned index)
{
  return container_of(list_first(&r->classes[power][index]), block, free_node);
}

// The first block in a class above that of `units`: all blocks there are large enough.
static block *fit_above(ranges *r, size_t units)
{
  size_class c = class_of(units);
  uint32_t here = r->filled[c.power] & (uint32_t)(~UINT64_C(1) << c.index);
  if (here != 0)
    return first_of(r, c.power, (unsigned)__builtin_ctz(here));
  uint64_t above = r->powers & (~UINT64_C(1) << c.power);
  if (above == 0)
    return NULL;
  unsigned power = (unsigned)__builtin_ctzll(above);
  return first_of(r, power, (unsigned)__builtin_ctz(r->filled[power]));
}

// A large enough block of the same class.
static block *fit_within(ranges *r, size_t units)
{
  size_class c = class_of(units);
  list_foreach (block, b, free_node, &r->classes[c.power][c.index])
    if (b->units >= units)
      return b;
  return NULL;
}

static block *find_fit(ranges *r, size_t units)
{
  size_class c = class_of(units);
  block *b = first_of(r, c.power, c.index);
  if (b != NULL && b->units >= units)
    return b;
  b = fit_above(r, units);
  return b != NULL ? b : fit_within(r, units);
}

// ---- books ----

static error *have_spare(ranges *r)
{
  if (!list_is_empty(&r->spares))
    return NULL;
  slab *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return error_no_memory();
  list_append(&r->slabs, &s->node);
  for (size_t i = 0; i < SLAB_BLOCKS; i++)
    list_append(&r->spares, &s->blocks[i].free_node);
  return NULL;
}

static block *take_spare(ranges *r)
{
  block *b = container_of(list_take_first(&r->spares), block, free_node);
  *b = (block){0};
  return b;
}

static block **slot_of(block **slots, size_t count, uintptr_t address)
{
  uint64_t hash = (address / RANGES_ALIGNMENT) * UINT64_C(0x9E3779B97F4A7C15);
  return &slots[(hash >> 32) & (count - 1)];
}

static void add_taken(block **slots, size_t count, block *b)
{
  block **slot = slot_of(slots, count, b->base);
  b->chain = *slot;
  *slot = b;
}

// Without memory for more slots the chains get longer.
static void grow_slots(ranges *r)
{
  size_t count = r->slot_count * 2;
  block **slots = calloc(count, sizeof(*slots));
  if (slots == NULL)
    return;
  for (size_t i = 0; i < r->slot_count; i++)
    for (block *b = r->slots[i], *next; b != NULL; b = next) {
      next = b->chain;
      add_taken(slots, count, b);
    }
  free(r->slots);
  r->slots = slots;
  r->slot_count = count;
}

static block *remove_taken(ranges *r, uintptr_t address)
{
  for (block **at = slot_of(r->slots, r->slot_count, address); *at != NULL; at = &(*at)->chain)
    if ((*at)->base == address) {
      block *b = *at;
      *at = b->chain;
      b->chain = NULL;
      return b;
    }
  return NULL;
}

// ---- what callers ask for ----

error *ranges_add(ranges *r, uintptr_t base, size_t bytes)
{
  size_t skipped = -base % RANGES_ALIGNMENT;
  size_t units = bytes > skipped ? (bytes - skipped) / RANGES_ALIGNMENT : 0;
  if (units == 0)
    return NULL;
  RETURN_IF_ERROR(have_spare(r));
  block *b = take_spare(r);
  b->base = base + skipped;
  b->units = units;
  add_free(r, b);
  r->total_units += units;
  return NULL;
}

// Makes the rest of a block after its first `units` a free block. `b` is in no list.
static void split(ranges *r, block *b, size_t units)
{
  if (b->units == units)
    return;
  block *rest = take_spare(r);
  rest->base = b->base + units * RANGES_ALIGNMENT;
  rest->units = b->units - units;
  rest->before = b;
  rest->behind = b->behind;
  if (b->behind != NULL)
    b->behind->before = rest;
  b->behind = rest;
  b->units = units;
  add_free(r, rest);
}

error *ranges_take(ranges *r, size_t bytes, uintptr_t *address)
{
  *address = 0;
  size_t padded;
  if (!checked_add_size(bytes, RANGES_ALIGNMENT - 1, &padded))
    return NULL; // larger than possible
  size_t units = bytes == 0 ? 1 : padded / RANGES_ALIGNMENT;
  block *b = find_fit(r, units);
  if (b == NULL)
    return NULL;
  RETURN_IF_ERROR(have_spare(r));
  remove_free(r, b);
  split(r, b, units);
  if (r->taken == r->slot_count)
    grow_slots(r);
  add_taken(r->slots, r->slot_count, b);
  r->taken++;
  r->used_units += units;
  *address = b->base;
  return NULL;
}

// Merges the block after `b` into it; neither is in a free list.
static void absorb_next(ranges *r, block *b)
{
  block *next = b->behind;
  assert(b->base + b->units * RANGES_ALIGNMENT == next->base);
  b->units += next->units;
  b->behind = next->behind;
  if (b->behind != NULL)
    b->behind->before = b;
  list_prepend(&r->spares, &next->free_node);
}

void ranges_give_back(ranges *r, uintptr_t address)
{
  block *b = remove_taken(r, address);
  assert(b != NULL);
  if (b == NULL)
    return;
  r->taken--;
  r->used_units -= b->units;
  if (b->behind != NULL && list_is_linked(&b->behind->free_node)) {
    remove_free(r, b->behind);
    absorb_next(r, b);
  }
  if (b->before != NULL && list_is_linked(&b->before->free_node)) {
    b = b->before;
    remove_free(r, b);
    absorb_next(r, b);
  }
  add_free(r, b);
}

size_t ranges_total(const ranges *r)
{
  return r->total_units * RANGES_ALIGNMENT;
}

size_t ranges_used(const ranges *r)
{
  return r->used_units * RANGES_ALIGNMENT;
}

size_t ranges_largest_free(const ranges *r)
{
  if (r->powers == 0)
    return 0;
  unsigned power = 63u - (unsigned)__builtin_clzll(r->powers);
  unsigned index = 31u - (unsigned)__builtin_clz(r->filled[power]);
  size_t most = 0;
  list_foreach (block, b, free_node, &r->classes[power][index])
    most = b->units > most ? b->units : most;
  return most * RANGES_ALIGNMENT;
}
