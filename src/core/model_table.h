// SPDX-License-Identifier: Apache-2.0
// The models of a server by name, each with the state of its versions. A name stays until the
// server ends, so that look-ups take no lock but the entry's own, which is held for a few
// instructions.
#ifndef NEREID_CORE_MODEL_TABLE_H
#define NEREID_CORE_MODEL_TABLE_H

#include "base/error.h"
#include "base/file_stamp.h"
#include "base/thread.h"
#include "config/config.h"
#include "core/model.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum version_state {
  VERSION_UNKNOWN,
  VERSION_READY,
  VERSION_UNAVAILABLE,
  VERSION_LOADING,
  VERSION_UNLOADING,
} version_state;

typedef struct version_routing version_routing; // core/version_routing.h
typedef struct ensemble_record ensemble_record; // core/ensemble_record.h

extern const char *const version_state_names[]; // "READY" and so on, as in the index

typedef struct version_slot {
  int64_t version;
  version_state state;
  char *reason;         // owned; NULL when there is none
  model *ready;         // one reference, while READY
  model *retired;       // one reference, until the holder of the entry has dropped it
  const model *leaving; // while UNLOADING: the model that leaves; never followed
  file_stamp stamp;     // repository_version's at its load
} version_slot;

typedef struct model_entry {
  struct model_entry *next;      // in its bucket of `buckets`; does not change
  struct model_entry *next_bare; // the same in `bare`
  uint64_t hash;
  char *name;
  const char *bare;       // the clients' name: `name`, with namespacing the end of it
  pthread_mutex_t lock;   // guards everything below
  version_slot *versions; // ascending
  size_t version_count;
  char *failure;       // why there are no versions, or NULL
  bool failure_counts; // against the server's readiness

  bool busy;           // a load or unload has the entry; see model_entry_acquire
  pthread_cond_t idle; // `busy` is false again
  uint64_t unloads;    // asked for so far; a change during a load makes the load fail
  file_stamp stamp;    // of the files of the last load; 0: not loaded, or loaded with what a
                       // request brought
  Inference__ModelConfig *config; // as read for the last load, owned; NULL: not loaded
  version_routing *routing;       // owned; NULL: it never had rules; stays once it is there

  bool by_name;              // wanted by itself, not only for an ensemble
  ensemble_record *ensemble; // owned: of an ensemble that is to be served; NULL: it is none

  // For servers that load on demand (core/demand.h).
  unsigned expected;                     // loads that requests wait for, until they have the model
  uint64_t memory_bytes;                 // at the last measurement; 0: unknown
  struct demand_failure *demand_failure; // owned: of the last load; NULL: it succeeded
} model_entry;

#define MODEL_TABLE_BUCKETS 1024

typedef struct model_table {
  pthread_mutex_t lock; // serialises insertions
  _Atomic(model_entry *) buckets[MODEL_TABLE_BUCKETS];
  _Atomic size_t count;
  _Atomic size_t ensembles;                         // entries that have a record
  bool namespacing;                                 // false: names have no namespace
  _Atomic(model_entry *) bare[MODEL_TABLE_BUCKETS]; // by bare name, with namespacing
} model_table;

void model_table_init(model_table *table, bool namespacing); // of zeroed memory
void model_table_fini(model_table *table);                   // no version may be READY

model_entry *model_table_find(model_table *table, const char *name); // NULL when absent
// Finds or adds. `bare` is the end of `name`, or all of it.
error *model_table_add(model_table *table, const char *name, const char *bare, model_entry **entry);

// The entries with the clients' name `bare`, one after another: NULL begins and ends.
model_entry *model_table_next_bare(model_table *table, const char *bare, const model_entry *entry);

// The entry of the model that clients call `name`. NOT_FOUND; with namespacing also INVALID_ARG, in
// Triton's words.
error *model_table_find_named(model_table *table, const char *name, model_entry **entry);
// "Request for unknown model: …"
error *model_unknown(error_code code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

// All entries in no order, one after another, without a copy: NULL begins and ends. Entries that
// are added meanwhile may be left out.
model_entry *model_table_next(model_table *table, const model_entry *entry);

// All entries by name; the caller frees the array, which is NULL after an error.
error *model_table_sorted(model_table *table, model_entry ***entries, size_t *count);

// The right to load or unload a model: one holder at a time, other threads wait.
void model_entry_acquire(model_entry *entry);
bool model_entry_try_acquire(model_entry *entry); // false: another thread has it
void model_entry_release(model_entry *entry);

// Replaces the entry's record; NULL: it has none any more.
void model_table_set_ensemble(model_table *table, model_entry *entry,
                              ensemble_record *record_owned);

// For the rest, entry->lock is held.

version_slot *model_entry_version(model_entry *entry, int64_t version); // NULL when absent
// The largest READY version; NULL when none is.
static inline version_slot *model_entry_latest(model_entry *entry)
{
  assert(lock_is_held(&entry->lock));
  for (size_t i = entry->version_count; i-- > 0;)
    if (entry->versions[i].state == VERSION_READY)
      return &entry->versions[i];
  return NULL;
}
// Finds or adds; NULL when memory is short.
version_slot *model_entry_add_version(model_entry *entry, int64_t version);
void model_entry_forget_failure(model_entry *entry);
// `reason` is copied, unless memory is short; NULL: none.
void version_slot_set(version_slot *v, version_state state, const char *reason);
// Whether only the table references the READY versions, and no load is expected.
bool model_entry_is_idle(const model_entry *entry);
// The memory of the READY versions (core/model_memory.h).
uint64_t model_entry_bytes(const model_entry *entry);
// Whether it does not count against the server's readiness: it is unloaded, or being unloaded.
bool version_slot_is_excused(const version_slot *v);
// READY to UNLOADING. Returns the model, whose reference the caller drops without the lock.
model *version_slot_retire(version_slot *v);

#endif
