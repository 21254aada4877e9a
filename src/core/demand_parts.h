// SPDX-License-Identifier: Apache-2.0
// Shared by the files of loading on demand: asking (demand.c), waiting (demand_wait.c), loading
// (demand_load.c) and making room (demand_room.c).
#ifndef NEREID_CORE_DEMAND_PARTS_H
#define NEREID_CORE_DEMAND_PARTS_H

#include "base/list.h"
#include "base/string_map.h"
#include "core/demand_policy.h"
#include "core/demand_wait.h"
#include "core/load_pool.h"
#include "core/model_table.h"
#include "repository/repository.h"
#include "schedule/timekeeper.h"

#include <pthread.h>
#include <stdatomic.h>

// A model's parameter: "true" protects it from eviction.
#define DEMAND_PIN_PARAMETER "pinned"

typedef enum demand_stage {
  DEMAND_LOOKING, // a thread looks for its files
  DEMAND_QUEUED,  // it waits for room
  DEMAND_LOADING, // a thread loads it
} demand_stage;

// The load of a model that requests wait for.
typedef struct demand_load {
  load_task task;
  demand *demand;
  char *name;             // owned
  repository_model found; // owned; from the end of LOOKING on
  file_stamp stamp;       // of its directory
  uint64_t unloads;       // entry->unloads when its load began
  uint64_t bytes;         // estimated

  demand_stage stage; // set by demand_load_set; this and the rest are guarded by demand->lock
  list waiting;       // model_wait
  list_node node;     // in demand->queue, while QUEUED
  uint64_t queued_ns;
} demand_load;

struct NEREID_ModelWait {
  demand *demand;
  int64_t version; // -1: any
  model_wait_ended *ended;
  void *context;
  timer deadline;
  uint64_t deadline_ns; // CLOCK_NEVER: none
  bool is_timed;

  list_node node; // in its load's `waiting`, guarded by demand->lock; unlinked: the wait is over
  model *m;       // this and the rest: of the thread that ends the wait, then the caller's; or NULL
  error *failure; // owned
};

struct demand {
  server *server;
  uint64_t budget;
  load_pool lookers, loaders;
  pthread_t keeper;

  pthread_mutex_t lock; // guards what follows
  string_map loads;     // demand_load by name
  list queue;           // loads that wait for room, in order of arrival
  uint64_t loading_bytes;
  uint64_t waiting; // number of model_waits
  uint64_t loads_done, failures, evictions;
  bool unsettled; // the budget may be exceeded
  bool ending;
  pthread_cond_t changed; // for the keeper
};

// --- demand_wait.c

model_wait *model_wait_new(demand *d, int64_t version, uint64_t deadline_ns,
                           model_wait_ended *ended, void *context); // NULL: memory is short
// Makes `w` wait for the load. demand->lock is held; once it is free, the wait may be over.
void model_wait_join(model_wait *w, demand_load *l);

// Enters the next stage; demand->lock is held.
void demand_load_set(demand_load *l, demand_stage stage);

// Ends the load, whatever its stage: answers all waits, and frees it.
void demand_end_load(demand_load *l, error *failure_owned);

// --- demand_load.c

// Finds the model's files and queues the load. Thread of d->lookers.
void demand_look(load_task *task);
// Loads the model. Thread of d->loaders.
void demand_run_load(load_task *task);

// The error for a model whose load has failed; NULL: it may be tried. `worst`: the last verdict
// that refuses.
error *demand_refusal(model_entry *entry, uint64_t now_ns, demand_retry worst);

// --- demand_room.c

void *demand_keep(void *demand_pointer); // the keeper
uint64_t demand_used_bytes(demand *d);

#endif
