// SPDX-License-Identifier: Apache-2.0
// What the files of loading on demand share: who asks (demand.c) and waits (demand_wait.c), the
// load of a model (demand_load.c), and room for it (demand_room.c).
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

// A model's parameter: it is not evicted when its value is "true".
#define DEMAND_PIN_PARAMETER "pinned"

typedef enum demand_stage {
  DEMAND_LOOKING, // a thread looks for its files
  DEMAND_QUEUED,  // it waits for room
  DEMAND_LOADING, // a thread loads it
} demand_stage;

// A model that is being loaded for those that wait.
typedef struct demand_load {
  load_task task;
  demand *demand;
  char *name;             // owned, as what follows
  repository_model found; // from the end of LOOKING on
  file_stamp stamp;       // of its directory
  uint64_t unloads;       // of the model's entry, when its load began
  uint64_t bytes;         // what it is thought to take

  demand_stage stage; // demand_load_set; guarded by demand->lock, as what follows
  list waiting;       // model_wait
  list_node node;     // of demand->queue, while QUEUED
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

  list_node node; // of its load's waiting, guarded by demand->lock; not linked: it is over, or ends
  model *m;       // from here on whoever ends it, then the caller: referenced, or NULL
  error *failure; // owned
};

struct demand {
  server *server;
  uint64_t budget;
  load_pool lookers, loaders;
  pthread_t keeper;

  pthread_mutex_t lock; // guards what follows
  string_map loads;     // demand_load by name
  list queue;           // of those that wait for room, in the order of coming
  uint64_t loading_bytes;
  uint64_t waiting; // model_waits
  uint64_t loads_done, failures, evictions;
  bool unsettled; // more may be loaded than the budget has
  bool ending;
  pthread_cond_t changed; // for the keeper
};

// --- demand_wait.c

model_wait *model_wait_new(demand *d, int64_t version, uint64_t deadline_ns,
                           model_wait_ended *ended, void *context); // NULL: memory is short
// From here on it waits for the load; demand->lock is held, and once it is free the wait may be
// over.
void model_wait_join(model_wait *w, demand_load *l);

// The next stage; with demand->lock.
void demand_load_set(demand_load *l, demand_stage stage);

// The load is over, whatever its stage: answers all that wait, and frees it.
void demand_end_load(demand_load *l, error *failure_owned);

// --- demand_load.c

// Looks for the model's files, and puts the load into the queue. Thread of d->lookers.
void demand_look(load_task *task);
// Loads it. Thread of d->loaders.
void demand_run_load(load_task *task);

// What a model that failed is refused with for now; NULL: it may be tried.
error *demand_refusal(model_entry *entry, uint64_t now_ns, demand_retry worst);

// --- demand_room.c

void *demand_keep(void *demand_pointer); // the keeper
uint64_t demand_used_bytes(demand *d);

#endif
