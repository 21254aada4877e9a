// The table of models: a fixed array of lists that only grow, read without a lock.
#include "core/model_table.h"

#include "base/cleanup.h"
#include "base/state.h"
#include "base/string_map.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *const version_state_names[] = {
    [VERSION_UNKNOWN] = "UNKNOWN",         [VERSION_READY] = "READY",
    [VERSION_UNAVAILABLE] = "UNAVAILABLE", [VERSION_LOADING] = "LOADING",
    [VERSION_UNLOADING] = "UNLOADING",
};

void model_table_init(model_table *table)
{
  pthread_mutex_init(&table->lock, NULL);
  for (size_t i = 0; i < MODEL_TABLE_BUCKETS; i++)
    atomic_init(&table->buckets[i], NULL);
  atomic_init(&table->count, 0);
}

static void free_entry(model_entry *entry)
{
  for (size_t i = 0; i < entry->version_count; i++)
    free(entry->versions[i].reason);
  free(entry->versions);
  free(entry->failure);
  free(entry->name);
  config_free(entry->config);
  pthread_cond_destroy(&entry->idle);
  pthread_mutex_destroy(&entry->lock);
  free(entry);
}

void model_table_fini(model_table *table)
{
  for (size_t i = 0; i < MODEL_TABLE_BUCKETS; i++) {
    model_entry *entry = atomic_load_explicit(&table->buckets[i], memory_order_relaxed);
    while (entry != NULL) {
      model_entry *next = entry->next;
      free_entry(entry);
      entry = next;
    }
  }
  pthread_mutex_destroy(&table->lock);
}

static model_entry *find(model_table *table, const char *name, uint64_t hash)
{
  model_entry *entry =
      atomic_load_explicit(&table->buckets[hash % MODEL_TABLE_BUCKETS], memory_order_acquire);
  while (entry != NULL && (entry->hash != hash || strcmp(entry->name, name) != 0))
    entry = entry->next;
  return entry;
}

model_entry *model_table_find(model_table *table, const char *name)
{
  return find(table, name, string_map_hash(slice_of(name)));
}

static model_entry *make_entry(const char *name, uint64_t hash)
{
  model_entry *entry = calloc(1, sizeof(*entry));
  if (entry == NULL || (entry->name = strdup(name)) == NULL) {
    free(entry);
    return NULL;
  }
  entry->hash = hash;
  pthread_mutex_init(&entry->lock, NULL);
  pthread_cond_init(&entry->idle, NULL);
  return entry;
}

error *model_table_add(model_table *table, const char *name, model_entry **result)
{
  uint64_t hash = string_map_hash(slice_of(name));
  LOCK_SCOPE(&table->lock);
  *result = find(table, name, hash);
  if (*result != NULL)
    return NULL;
  model_entry *entry = make_entry(name, hash);
  if (entry == NULL)
    return error_no_memory();
  _Atomic(model_entry *) *bucket = &table->buckets[hash % MODEL_TABLE_BUCKETS];
  entry->next = atomic_load_explicit(bucket, memory_order_relaxed);
  atomic_store_explicit(bucket, entry, memory_order_release);
  atomic_fetch_add_explicit(&table->count, 1, memory_order_relaxed);
  *result = entry;
  return NULL;
}

static int compare_names(const void *a, const void *b)
{
  return strcmp((*(model_entry *const *)a)->name, (*(model_entry *const *)b)->name);
}

model_entry *model_table_next(model_table *table, const model_entry *entry)
{
  if (entry != NULL && entry->next != NULL)
    return entry->next;
  model_entry *next = NULL;
  size_t bucket = entry == NULL ? 0 : entry->hash % MODEL_TABLE_BUCKETS + 1;
  for (; next == NULL && bucket < MODEL_TABLE_BUCKETS; bucket++)
    next = atomic_load_explicit(&table->buckets[bucket], memory_order_acquire);
  return next;
}

error *model_table_sorted(model_table *table, model_entry ***result, size_t *count)
{
  *result = NULL;
  *count = 0;
  LOCK_SCOPE(&table->lock); // nothing is added meanwhile
  size_t total = atomic_load_explicit(&table->count, memory_order_relaxed);
  model_entry **entries = calloc(total + 1, sizeof(model_entry *));
  if (entries == NULL)
    return error_no_memory();
  model_entry *entry = NULL;
  while ((entry = model_table_next(table, entry)) != NULL)
    entries[(*count)++] = entry;
  qsort(entries, *count, sizeof(model_entry *), compare_names);
  *result = entries;
  return NULL;
}

void model_entry_acquire(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  while (entry->busy)
    pthread_cond_wait(&entry->idle, &entry->lock);
  entry->busy = true;
}

void model_entry_release(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  assert(entry->busy);
  entry->busy = false;
  pthread_cond_signal(&entry->idle);
}

version_slot *model_entry_version(model_entry *entry, int64_t version)
{
  assert(lock_is_held(&entry->lock));
  for (size_t i = 0; i < entry->version_count; i++)
    if (entry->versions[i].version == version)
      return &entry->versions[i];
  return NULL;
}

version_slot *model_entry_add_version(model_entry *entry, int64_t version)
{
  version_slot *found = model_entry_version(entry, version);
  if (found != NULL)
    return found;
  version_slot *grown =
      reallocarray(entry->versions, entry->version_count + 1, sizeof(version_slot));
  if (grown == NULL)
    return NULL;
  entry->versions = grown;
  size_t at = entry->version_count++;
  for (; at > 0 && grown[at - 1].version > version; at--)
    grown[at] = grown[at - 1];
  grown[at] = (version_slot){.version = version};
  return &grown[at];
}

#define TO(state) STATE_BIT(VERSION_##state)

static const unsigned allowed[] = {
    [VERSION_UNKNOWN] = TO(LOADING), // a new slot is
    [VERSION_LOADING] = TO(READY) | TO(UNLOADING) | TO(UNAVAILABLE),
    [VERSION_READY] = TO(READY) | TO(UNLOADING),
    [VERSION_UNLOADING] = TO(LOADING) | TO(UNAVAILABLE),
    [VERSION_UNAVAILABLE] = TO(LOADING) | TO(UNAVAILABLE),
};

void version_slot_set(version_slot *v, version_state state, const char *reason)
{
  state_assert(allowed, v->state, state);
  assert((state == VERSION_READY) == (v->ready != NULL));
  free(v->reason);
  v->reason = reason != NULL ? strdup(reason) : NULL;
  v->state = state;
  v->leaving = NULL;
}

model *version_slot_retire(version_slot *v)
{
  model *m = v->ready;
  assert(v->state == VERSION_READY && m != NULL);
  v->ready = NULL;
  version_slot_set(v, VERSION_UNLOADING, NULL);
  v->leaving = m;
  return m;
}
