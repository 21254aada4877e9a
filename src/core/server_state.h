// SPDX-License-Identifier: Apache-2.0
// The inside of a server, for the files that make it, load its models and answer questions.
#ifndef NEREID_CORE_SERVER_STATE_H
#define NEREID_CORE_SERVER_STATE_H

#include "backend/backend.h"
#include "core/agent.h"
#include "core/live_models.h"
#include "core/load_pool.h"
#include "core/metric_settings.h"
#include "core/server.h"
#include "repository/repository.h"
#include "schedule/timekeeper.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum server_state {
  SERVER_STARTING, // start-up models are being loaded
  SERVER_READY,
  SERVER_EXITING,
} server_state;

#define PINNED_SHARES 2 // shares of the pinned pool that clients may take (api/gpu_memory.c)

typedef enum startup_state {
  STARTUP_DUE,
  STARTUP_RUNNING, // the thread is started and not joined
  STARTUP_OVER,    // the same, but its work is done
} startup_state;

struct TRITONSERVER_Server {
  server_options options;
  metric_settings metric_settings;
  model_environment environment;
  file_policy links; // of the repositories; does not change
  repository_set repositories;
  backend_registry backends;
  agent_registry agents;
  struct response_cache *cache; // NULL: there is none
  timekeeper *timekeeper;
  model_table models;
  _Atomic bool has_rules; // a model has rules about its versions, or had some
  live_models live;
  load_pool pool;
  struct demand *demand;                         // NULL unless models are loaded on demand
  struct model_metrics *metrics;                 // NULL without metrics
  struct poller *poller;                         // under poll, after start-up; else NULL
  _Atomic uint64_t pinned_shares[PINNED_SHARES]; // bytes taken of each share
  _Atomic server_state state;
  _Atomic unsigned int exit_timeout_seconds;

  pthread_t startup_thread;
  pthread_mutex_t lock; // guards what follows and `done` of all load_operations
  pthread_cond_t changed;
  startup_state startup;
  char *startup_failure; // valid once start-up is over; NULL: all models are in
};

static inline server_state server_state_of(const server *s)
{
  return atomic_load_explicit(&s->state, memory_order_acquire);
}

#endif
