// SPDX-License-Identifier: Apache-2.0
// What is asked of a load, and the load itself: begun and ended by lifecycle.c, planned by
// load_plan.c. One thread has it until its jobs run.
#ifndef NEREID_CORE_LOAD_OPERATION_H
#define NEREID_CORE_LOAD_OPERATION_H

#include "base/error.h"
#include "base/string_list.h"
#include "core/server_state.h"
#include "core/version_routing.h"
#include "repository/repository.h"
#include "repository/upload.h"

#include <pthread.h>

typedef struct load_operation load_operation;

// What an ensemble needs before it can be loaded.
typedef struct load_steps {
  bool is_ensemble;
  bool unchanged;     // it serves as its directory says
  string_list models; // of its steps
} load_steps;

typedef struct load_wish {
  const repository_model *found;
  const char *config_json; // replaces the configuration file; NULL: none
  upload *files;     // the model's as long as it is served, `found` names them; NULL: they are a
                     // repository's
  bool by_name;      // not for an ensemble alone
  bool again;        // an ensemble: as its record says (core/ensemble_record.h), changed or not
  bool anew;         // also where nothing but an ensemble's steps has changed
  load_steps *steps; // zeroed: filled for an ensemble, of which nothing begins; NULL: its steps'
                     // models have been loaded, and it is checked with them
  void (*ended)(void *context); // called at the end of what has begun, without a lock; NULL: nobody
  void *context;
} load_wish;

// The load of one version.
typedef struct load_job {
  load_task task;
  load_operation *operation;
  int64_t version;
  file_stamp stamp;
  model *serving; // one reference: it stays, with other instances; NULL: it is loaded
  model *loaded;  // one reference; NULL when it failed or is not to be
  error *failure; // NULL when it succeeded
} load_job;

struct load_operation {
  server *server;
  model_entry *entry;             // acquired until the load is done
  char *repository, *folder;      // where it is, after agents moved it
  char *dir;                      // the same as one path
  bool anew;                      // whatever serves does not stay
  upload *upload;                 // what was sent instead of a repository's files, or NULL
  agent_chain *agents;            // until the load is done; NULL: none
  Inference__ModelConfig *config; // what was read; each version is loaded from a copy
  version_routing *routing;       // what it says of versions, or NULL
  source_map places;              // where it stands in its file; empty: it came with the request
  file_stamp stamp;
  uint64_t unloads; // entry->unloads when it began
  int64_t *wanted;  // all versions that shall be served
  size_t wanted_count;
  load_job *jobs; // one for each that does not just stay
  size_t job_count;
  _Atomic size_t remaining; // jobs that run, and one of whoever begins
  model **dropped;          // by its end, once the entry's lock is free; room for all versions
  size_t dropped_count;
  void (*tell)(void *context); // at the end; or NULL
  void *context;
  bool done;            // guarded by server->lock
  pthread_cond_t ended; // done; of its own, so that it wakes nobody else
  error *outcome;
};

// Nobody trustworthy wrote what came with a request.
static inline const file_policy *load_links(const load_operation *o)
{
  return o->upload == NULL ? &o->server->links : &file_policy_no_links;
}

#endif
