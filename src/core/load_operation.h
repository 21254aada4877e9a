// SPDX-License-Identifier: Apache-2.0
// The wish for a load, and the load itself: begun and ended by lifecycle.c, planned by load_plan.c.
// It belongs to one thread until its jobs run.
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

// The needs of an ensemble before it can be loaded.
typedef struct load_steps {
  bool is_ensemble;
  bool unchanged;     // it serves what its directory has
  string_list models; // of its steps
} load_steps;

typedef struct load_wish {
  const repository_model *found;
  const char *config_json; // replaces the configuration file; NULL: none
  upload *files; // sent with the request, and kept as long as the model is served; `found` names
                 // them; NULL: the files are a repository's
  bool by_name;  // wanted by itself, not only for an ensemble
  bool again;    // an ensemble: load it as its record says (core/ensemble_record.h), changed or not
  bool anew;     // also when nothing but an ensemble's steps has changed
  load_steps *steps; // zeroed; filled for an ensemble, which is then not loaded yet; NULL: its
                     // steps' models have been loaded, and it is checked with them
  void (*ended)(void *context); // called at the load's end, without a lock; NULL: nobody
  void *context;
} load_wish;

// The load of one version.
typedef struct load_job {
  load_task task;
  load_operation *operation;
  int64_t version;
  file_stamp stamp;
  model *serving; // one reference: it stays, with other instances; NULL: a new one is loaded
  model *loaded;  // one reference; NULL when the load failed, or for `serving`
  error *failure; // NULL when it succeeded
} load_job;

struct load_operation {
  server *server;
  model_entry *entry;             // acquired until the load is done
  char *repository, *folder;      // of the model, after agents moved it
  char *dir;                      // the same as one path
  bool anew;                      // no version that serves stays
  upload *upload;                 // sent instead of a repository's files, or NULL
  agent_chain *agents;            // until the load is done; NULL: none
  Inference__ModelConfig *config; // as read; each version is loaded from a copy
  version_routing *routing;       // the configuration's rules for versions, or NULL
  source_map places;              // of its fields in the file; empty: it came with the request
  file_stamp stamp;
  uint64_t unloads; // entry->unloads when it began
  int64_t *wanted;  // all versions that shall be served
  size_t wanted_count;
  load_job *jobs; // one for each version that does not just stay
  size_t job_count;
  _Atomic size_t remaining; // running jobs, plus one for the thread that begins
  model **dropped;          // references to drop without the entry's lock; room for all versions
  size_t dropped_count;
  void (*tell)(void *context); // at the end; or NULL
  void *context;
  bool done;            // guarded by server->lock
  pthread_cond_t ended; // `done`
  error *outcome;
};

// Files that came with a request are not trusted.
static inline const file_policy *load_links(const load_operation *o)
{
  return o->upload == NULL ? &o->server->links : &file_policy_no_links;
}

#endif
