// SPDX-License-Identifier: Apache-2.0
// The table of models: a fixed array of lists that only grow, read without a lock.
#include "core/model_table.h"

#include "base/cleanup.h"
#include "base/state.h"
#include "base/string_map.h"
#include "base/thread.h"
#include "core/ensemble_record.h"
#include "core/model_memory.h"
#include "core/version_routing.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const version_state_names[] = {
    [VERSION_UNKNOWN] = "UNKNOWN",         [VERSION_READY] = "READY",
    [VERSION_UNAVAILABLE] = "UNAVAILABLE", [VERSION_LOADING] = "LOADING",
    [VERSION_UNLOADING] = "UNLOADING",
};

void model_table_init(model_table *table, bool namespacing)
{
  table->namespacing = namespacing;
  pthread_mutex_init(&table->lock, NULL);
}

static void free_entry(model_entry *entry)
{
  for (size_t i = 0; i < entry->version_count; i++)
    free(entry->versions[i].reason);
  free(entry->versions);
  free(entry->failure);
  free(entry->demand_failure);
  free(entry->name);
  config_free(entry->config);
  version_routing_free(entry->routing);
  ensemble_record_free(entry->ensemble);
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

static _Atomic(model_entry *) *bare_bucket(model_table *table, const char *bare)
{
  return &table->bare[string_map_hash(slice_of(bare)) % MODEL_TABLE_BUCKETS];
}

model_entry *model_table_next_bare(model_table *table, const char *bare, const model_entry *entry)
{
  if (!table->namespacing)
    return entry == NULL ? model_table_find(table, bare) : NULL;
  model_entry *next = entry != NULL
                          ? entry->next_bare
                          : atomic_load_explicit(bare_bucket(table, bare), memory_order_acquire);
  while (next != NULL && strcmp(next->bare, bare) != 0)
    next = next->next_bare;
  return next;
}

static model_entry *make_entry(const char *name, const char *bare, uint64_t hash)
{
  model_entry *entry = calloc(1, sizeof(*entry));
  if (entry == NULL || (entry->name = strdup(name)) == NULL) {
    free(entry);
    return NULL;
  }
  entry->bare = entry->name + strlen(name) - strlen(bare);
  entry->hash = hash;
  pthread_mutex_init(&entry->lock, NULL);
  pthread_cond_init(&entry->idle, NULL);
  return entry;
}

// Entries are complete before they can be found by other threads.
static void insert(_Atomic(model_entry *) *bucket, model_entry *entry, model_entry **next)
{
  *next = atomic_load_explicit(bucket, memory_order_relaxed);
  atomic_store_explicit(bucket, entry, memory_order_release);
}

error *model_table_add(model_table *table, const char *name, const char *bare, model_entry **result)
{
  uint64_t hash = string_map_hash(slice_of(name));
  LOCK_SCOPE(&table->lock);
  *result = find(table, name, hash);
  if (*result != NULL)
    return NULL;
  model_entry *entry = make_entry(name, bare, hash);
  if (entry == NULL)
    return error_no_memory();
  insert(&table->buckets[hash % MODEL_TABLE_BUCKETS], entry, &entry->next);
  if (table->namespacing)
    insert(bare_bucket(table, entry->bare), entry, &entry->next_bare);
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
  model_entry **entries = calloc(total + 1, sizeof(*entries));
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

bool model_entry_try_acquire(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  bool free = !entry->busy;
  entry->busy = true;
  return free;
}

void model_entry_release(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  assert(entry->busy);
  entry->busy = false;
  pthread_cond_signal(&entry->idle);
}

void model_table_set_ensemble(model_table *table, model_entry *entry, ensemble_record *record_owned)
{
  pthread_mutex_lock(&entry->lock);
  ensemble_record *before = entry->ensemble;
  entry->ensemble = record_owned;
  pthread_mutex_unlock(&entry->lock);
  if (record_owned != NULL)
    atomic_fetch_add_explicit(&table->ensembles, 1, memory_order_relaxed);
  if (before != NULL)
    atomic_fetch_sub_explicit(&table->ensembles, 1, memory_order_relaxed);
  ensemble_record_free(before);
}

void model_entry_forget_failure(model_entry *entry)
{
  assert(lock_is_held(&entry->lock));
  free(entry->failure);
  entry->failure = NULL;
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
  version_slot *grown = reallocarray(entry->versions, entry->version_count + 1, sizeof(*grown));
  if (grown == NULL)
    return NULL;
  entry->versions = grown;
  size_t at = entry->version_count++;
  for (; at > 0 && grown[at - 1].version > version; at--)
    grown[at] = grown[at - 1];
  grown[at] = (version_slot){.version = version};
  return &grown[at];
}

bool model_entry_is_idle(const model_entry *entry)
{
  assert(lock_is_held(&entry->lock));
  if (entry->expected > 0)
    return false;
  for (size_t i = 0; i < entry->version_count; i++)
    if (entry->versions[i].state == VERSION_READY &&
        refcount_peek(&entry->versions[i].ready->target.references) > 1)
      return false;
  return true;
}

uint64_t model_entry_bytes(const model_entry *entry)
{
  uint64_t sum = 0;
  assert(lock_is_held(&entry->lock));
  for (size_t i = 0; i < entry->version_count; i++)
    if (entry->versions[i].state == VERSION_READY)
      sum += model_memory_bytes(entry->versions[i].ready);
  return sum;
}

#define TO(state) STATE_BIT(VERSION_##state)

static const unsigned allowed[] = {
    [VERSION_UNKNOWN] = TO(LOADING), // of a new slot
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

// ---- clients' names ----

error *model_unknown(error_code code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  error *e = error_new_va(code, format, arguments);
  va_end(arguments);
  return error_wrap(e, "Request for unknown model");
}

bool version_slot_is_excused(const version_slot *v)
{
  return v->state == VERSION_UNLOADING || (v->state == VERSION_UNAVAILABLE && v->reason != NULL &&
                                           strcmp(v->reason, "unloaded") == 0);
}

// Whether the entry counts as one of several models of a name: it was loaded, or its load failed.
static bool is_present(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  for (size_t i = 0; i < entry->version_count; i++)
    if (!version_slot_is_excused(&entry->versions[i]))
      return true;
  return false;
}

// In Triton's words, which differ from those without namespacing.
static error *find_in_namespaces(model_table *table, const char *name, model_entry **found)
{
  size_t count = 0;
  model_entry *entry = model_table_next_bare(table, name, NULL);
  if (entry == NULL)
    return model_unknown(ERROR_INVALID_ARG, "'%s' is not found", name);
  for (; entry != NULL; entry = model_table_next_bare(table, name, entry)) {
    if (is_present(entry)) {
      *found = entry;
      count++;
    }
  }
  if (count == 0)
    return error_new(ERROR_NOT_FOUND, "Identifier of model '%s' is not found in global map", name);
  if (count > 1)
    return error_new(ERROR_INVALID_ARG,
                     "There are %zu identifiers of model '%s' in global map, model namespace must "
                     "be provided to resolve ambiguity.",
                     count, name);
  return NULL;
}

error *model_table_find_named(model_table *table, const char *name, model_entry **entry)
{
  if (table->namespacing)
    return find_in_namespaces(table, name, entry);
  *entry = model_table_find(table, name);
  return *entry != NULL ? NULL : model_unknown(ERROR_NOT_FOUND, "'%s' is not found", name);
}
