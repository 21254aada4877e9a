// SPDX-License-Identifier: Apache-2.0
// A chained hash table of fixed size, so that no call takes long, and a list by use.
#include "caches/local/lru.h"

#include <assert.h>
#include <stdlib.h>

#define BYTES_A_SLOT 1024 // so that the slots take less than a hundredth of the limit
#define LEAST_SLOTS  8
#define MOST_SLOTS   ((size_t)1 << 22)

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

static lru_entry **slot_of(const lru *l, uint64_t hash)
{
  return &l->slots[hash & (l->slot_count - 1)];
}

lru_entry *lru_find(lru *l, slice key, uint64_t hash)
{
  lru_entry *entry = *slot_of(l, hash);
  while (entry != NULL && (entry->hash != hash || !slice_equal(entry->key, key)))
    entry = entry->next;
  if (entry != NULL) {
    list_remove(&entry->node);
    list_prepend(&l->recent, &entry->node);
  }
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

lru_entry *lru_evict(lru *l)
{
  list_node *last = list_last(&l->recent);
  if (last == NULL)
    return NULL;
  lru_entry *entry = container_of(last, lru_entry, node);
  lru_entry **at = slot_of(l, entry->hash);
  while (*at != entry)
    at = &(*at)->next;
  *at = entry->next;
  list_remove(&entry->node);
  l->count--;
  return entry;
}

void lru_add(lru *l, lru_entry *entry)
{
  lru_entry **at = slot_of(l, entry->hash);
  entry->next = *at;
  *at = entry;
  list_prepend(&l->recent, &entry->node);
  l->count++;
}
