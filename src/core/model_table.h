// The models of a server by name, each with the state of its versions. A name that was put in stays
// until the server ends, so that look-ups take no lock but the entry's own, which is held for a few
// instructions.
#ifndef NEREID_CORE_MODEL_TABLE_H
#define NEREID_CORE_MODEL_TABLE_H

#include "base/error.h"
#include "base/file_stamp.h"
#include "config/config.h"
#include "core/model.h"

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

extern const char *const version_state_names[]; // "READY" and so on, as in the index

typedef struct version_slot {
  int64_t version;
  version_state state;
  char *reason;         // owned; NULL when there is none
  model *ready;         // one reference, while READY
  model *retired;       // one reference, until the holder of the entry has dropped it
  const model *leaving; // while UNLOADING: says whose end it is, never followed
  file_stamp stamp;     // of its directory when it was loaded
} version_slot;

typedef struct model_entry {
  struct model_entry *next; // in its bucket; does not change
  uint64_t hash;
  char *name;
  pthread_mutex_t lock;   // guards everything below
  version_slot *versions; // ascending
  size_t version_count;
  char *failure;       // why there are no versions, or NULL
  bool failure_counts; // against the server's readiness

  bool busy;           // a load or unload has it; see model_entry_acquire
  pthread_cond_t idle; // busy fell
  uint64_t unloads;    // unloads asked for so far: one that comes during a load makes it fail
  file_stamp stamp;    // of what the last load took in; 0: not loaded, or with what came in the
                       // request
  Inference__ModelConfig *config; // as read for the last load, owned; NULL: not loaded
} model_entry;

#define MODEL_TABLE_BUCKETS 1024

typedef struct model_table {
  pthread_mutex_t lock; // serialises insertions
  _Atomic(model_entry *) buckets[MODEL_TABLE_BUCKETS];
  _Atomic size_t count;
} model_table;

void model_table_init(model_table *table);
void model_table_fini(model_table *table); // no version may be READY

model_entry *model_table_find(model_table *table, const char *name); // NULL when absent
error *model_table_add(model_table *table, const char *name, model_entry **entry); // finds or adds

// All entries in no order, one after another, without memory of its own: NULL begins and ends.
// What is added meanwhile may be left out.
model_entry *model_table_next(model_table *table, const model_entry *entry);

// All entries by name; the caller frees the array, which is NULL after an error.
error *model_table_sorted(model_table *table, model_entry ***entries, size_t *count);

// The right to load or unload a model: one holder at a time, the others wait.
void model_entry_acquire(model_entry *entry);
void model_entry_release(model_entry *entry);

// The rest is for holders of entry->lock.

version_slot *model_entry_version(model_entry *entry, int64_t version); // NULL when absent
// Finds or adds; NULL when memory is short.
version_slot *model_entry_add_version(model_entry *entry, int64_t version);
// `reason` is copied; NULL: none. (Without memory there is no reason.)
void version_slot_set(version_slot *v, version_state state, const char *reason);
// READY to UNLOADING; returns the model, whose reference the caller drops without the lock.
model *version_slot_retire(version_slot *v);

#endif
