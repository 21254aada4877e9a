// SPDX-License-Identifier: Apache-2.0
// Repository agents: shared libraries behind tritonrepoagent.h. An agent sees a model before it is
// loaded and may put another directory in its place. A library is open while a model uses it.
// All threads that load or destroy models share the registry. After an agent's Initialize has
// returned, only its `state` changes.
#ifndef NEREID_CORE_AGENT_H
#define NEREID_CORE_AGENT_H

#include "base/error.h"
#include "base/string_map.h"
#include "triton/core/tritonrepoagent.h"

#include <pthread.h>
#include <stddef.h>

// The functions that a library may offer; only model_action is mandatory.
typedef struct agent_functions {
  TRITONSERVER_Error *(*initialize)(TRITONREPOAGENT_Agent *);
  TRITONSERVER_Error *(*finalize)(TRITONREPOAGENT_Agent *);
  TRITONSERVER_Error *(*model_initialize)(TRITONREPOAGENT_Agent *, TRITONREPOAGENT_AgentModel *);
  TRITONSERVER_Error *(*model_finalize)(TRITONREPOAGENT_Agent *, TRITONREPOAGENT_AgentModel *);
  TRITONSERVER_Error *(*model_action)(TRITONREPOAGENT_Agent *, TRITONREPOAGENT_AgentModel *,
                                      TRITONREPOAGENT_ActionType);
} agent_functions;

typedef struct TRITONREPOAGENT_Agent {
  char *name;
  char *library; // path of the .so
  void *handle;  // see backend/library.h
  void *state;   // the agent's own
  agent_functions functions;
  size_t users; // guarded by the registry's lock; the last user closes the library
} agent;

typedef struct agent_registry {
  const char *dir; // the agents' directory, borrowed
  pthread_mutex_t lock;
  string_map agents; // by name; guarded by lock, also while a library initialises or finalises
} agent_registry;

void agent_registry_init(agent_registry *registry, const char *dir);
void agent_registry_fini(agent_registry *registry); // no agent may be in use

// The agent <directory>/<name>/libtritonrepoagent_<name>.so, for agent_release; the first caller
// loads and initialises it. Errors: INVALID_ARG when there is no such file, NOT_FOUND when it has
// no ModelAction; else the loader's or the agent's Initialize's.
error *agent_acquire(agent_registry *registry, const char *name, agent **a);
void agent_release(agent_registry *registry, agent *a); // the last user finalises and closes it

typedef void agent_visitor(void *context, const agent *a);
void agent_registry_visit(agent_registry *registry, agent_visitor *visit, void *context);

#endif
