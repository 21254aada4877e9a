// SPDX-License-Identifier: Apache-2.0
// A chained hash table of fixed size, so that no call takes long, and a list by use.
#include "caches/local/lru.h"

#include <assert.h>
#include <stdlib.h>

#define BYTES_A_SLOT 1024 // so that the slots take about a hundredth of the limit
#define LEAST_SLOTS  8
#define MOST_SLOTS   ((size_t)1 << 22)
#define LINE_BYTES   64
#define EARLY_LINES  4 // a small entry

static size_t slots_for(size_t limit)
{
  size_t count = LEAST_SLOTS;
  while (count < MOST_SLOTS && count < limit / BYTES_A_SLOT)
    count *= 2;
  return count;
}

bool lru_init(lru *l, size_t limit)
{
  *l = (lru){.limit = limit, .slot_count = slots_for(limit)};
  list_init(&l->recent);
  l->bytes = l->slot_count * sizeof(*l->slots);
  l->slots = calloc(l->slot_count, sizeof(*l->slots));
  return l->slots != NULL;
}

void lru_fini(lru *l)
{
  assert(l->count == 0);
  free(l->slots);
}

size_t lru_room(const lru *l)
{
  size_t slots = l->slot_count * sizeof(*l->slots);
  return l->limit > slots ? l->limit - slots : 0;
}

static lru_slot *slot_of(const lru *l, uint64_t hash)
{
  return &l->slots[hash & (l->slot_count - 1)];
}

// The top bits of the hash choose one of 64 bits; the low ones choose the slot.
static uint64_t bit_of(uint64_t hash)
{
  return (uint64_t)1 << (hash >> 58);
}

// Sets `seen` anew, without the bits of entries that have left.
static void forget_left(lru_slot *slot)
{
  slot->seen = 0;
  for (const lru_entry *entry = slot->first; entry != NULL; entry = entry->next)
    slot->seen |= bit_of(entry->hash);
}

lru_entry *lru_find(lru *l, slice key, uint64_t hash)
{
  lru_slot *slot = slot_of(l, hash);
  if ((slot->seen & bit_of(hash)) == 0)
    return NULL; // without a look at an entry, whose memory is cold
  lru_entry *entry = slot->first;
  while (entry != NULL && (entry->hash != hash || !slice_equal(entry->key, key)))
    entry = entry->next;
  if (entry == NULL) {
    forget_left(slot);
    return NULL;
  }
  list_remove(&entry->node);
  list_prepend(&l->recent, &entry->node);
  return entry;
}

bool lru_promise(lru *l, size_t bytes)
{
  if (l->bytes > l->limit || bytes > l->limit - l->bytes)
    return false;
  l->bytes += bytes;
  return true;
}

void lru_return(lru *l, size_t bytes)
{
  assert(l->bytes >= bytes);
  l->bytes -= bytes;
}

static lru_entry *before(const lru *l, const lru_entry *entry)
{
  list_node *node = list_previous(&l->recent, &entry->node);
  return node != NULL ? container_of(node, lru_entry, node) : NULL;
}

// Starts to read what the next two evictions need: that memory is cold.
static void fetch_early(const lru *l, const lru_entry *leaving)
{
  const lru_entry *next = before(l, leaving);
  const lru_entry *second = next != NULL ? before(l, next) : NULL;
  if (second == NULL)
    return;
  __builtin_prefetch(next->at, 1);
  for (size_t i = 0; i < EARLY_LINES; i++)
    __builtin_prefetch((const char *)second + i * LINE_BYTES, 1);
}

lru_entry *lru_evict(lru *l)
{
  list_node *last = list_last(&l->recent);
  if (last == NULL)
    return NULL;
  lru_entry *entry = container_of(last, lru_entry, node);
  fetch_early(l, entry);
  assert(*entry->at == entry);
  *entry->at = entry->next;
  if (entry->next != NULL)
    entry->next->at = entry->at;
  list_remove(&entry->node);
  l->count--;
  return entry;
}

void lru_add(lru *l, lru_entry *entry)
{
  lru_slot *slot = slot_of(l, entry->hash);
  entry->next = slot->first;
  entry->at = &slot->first;
  if (entry->next != NULL)
    entry->next->at = &entry->next;
  slot->first = entry;
  slot->seen |= bit_of(entry->hash);
  list_prepend(&l->recent, &entry->node);
  l->count++;
}
