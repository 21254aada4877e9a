// SPDX-License-Identifier: Apache-2.0
// Every model version that exists in a server, from its loading to its destruction, and the threads
// that destroy versions without references (the reaper and its helpers), since destroying joins
// threads and calls backends. These threads end single instances too.
#ifndef NEREID_CORE_LIVE_MODELS_H
#define NEREID_CORE_LIVE_MODELS_H

#include "base/error.h"
#include "base/list.h"
#include "core/load_pool.h"
#include "core/model.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Called on one of these threads when a model is gone. `identity` may only be compared;
// `was_loaded` is false when its load failed.
typedef void model_gone(void *context, const char *name, int64_t version, const model *identity,
                        bool was_loaded);

typedef struct live_models {
  pthread_mutex_t lock; // guards everything below
  list models;          // not being destroyed, the newest first
  size_t count;         // of these and of those being destroyed
  list destroy_queue;   // also in `models`: without references, to be destroyed
  list tasks;           // each has a reference to its model
  bool ending;
  pthread_cond_t queued; // for the reaper
  pthread_cond_t gone;   // count fell
  model_gone *on_gone;
  void *context;
  pthread_t reaper;
  load_pool helpers;
} live_models;

error *live_models_init(live_models *live, model_gone *on_gone, void *context);
// Ends the threads. False when models are left, which then stay for ever.
bool live_models_fini(live_models *live);

void live_models_add(live_models *live, model *m);
void live_models_queue_destroy(live_models *live, model *m); // model_environment.unreferenced
// Runs `task` on one of these threads. It has a reference to a model, which it drops at its end.
// Any thread; does not run the task itself.
void live_models_queue_task(live_models *live, load_task *task);

// Calls `visit` for each model with the lock held: it must not block nor drop references.
void live_models_visit(live_models *live, void (*visit)(void *context, model *m), void *context);

// The next model that still has references, with one for the caller, or NULL; NULL begins. Takes
// over the reference to `m_owned`, which it drops without the lock. A reload may show a name and
// version twice for a while, the newest first. Models that come meanwhile may be left out.
model *live_models_next(live_models *live, model *m_owned);

// Waits until there is no model, at most until the monotonic moment `deadline_ns`. Returns how many
// are left.
size_t live_models_await_none(live_models *live, uint64_t deadline_ns);

#endif
