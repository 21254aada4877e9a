// SPDX-License-Identifier: Apache-2.0
// The agents of one load of a model, in the order of its configuration. A chain belongs to that
// load and to every version that came of it; the last reference ends it. Actions are called by the
// holder of the model's entry (core/model_table.h), one at a time and without a lock; the end on
// whatever thread drops the last reference, which must not serve requests.
#ifndef NEREID_CORE_AGENT_CHAIN_H
#define NEREID_CORE_AGENT_CHAIN_H

#include "base/error.h"
#include "config/config.h"
#include "core/agent.h"

#include <stdbool.h>

typedef struct agent_chain agent_chain;

// What the agents are told of a model.
typedef struct agent_chain_source {
  agent_registry *registry;
  const Inference__ModelConfig *config; // as it was read
  const char *dir;                      // the model's
  const file_policy *links;             // which of it are followed
  const char *config_name;              // as repository_read_config takes it
} agent_chain_source;

// Whether the configuration names agents.
bool agent_chain_is_wanted(const Inference__ModelConfig *config);

// Calls ModelInitialize and LOAD of each agent in turn; each is given the directory that the one
// before left, and the configuration that is there. What an agent says when it fails is the error;
// those before it are told LOAD_FAIL.
error *agent_chain_new(const agent_chain_source *source, agent_chain **chain);

// The model's directory now. INTERNAL when an agent took it away.
error *agent_chain_dir(const agent_chain *chain, const char **dir);

// LOAD_COMPLETE or LOAD_FAIL, the last agent first. NULL: no agents, here and below.
void agent_chain_loaded(agent_chain *chain, bool complete);
// UNLOAD, the first agent first; only the first call after LOAD_COMPLETE counts.
void agent_chain_unload(agent_chain *chain);

agent_chain *agent_chain_ref(agent_chain *chain);
// The last one calls UNLOAD_COMPLETE, or whatever an agent has yet to be told, and ModelFinalize;
// directories that were acquired are removed.
void agent_chain_unref(agent_chain *chain);

// ---- what an agent asks about a model (api/repository_agent.c) ----

// Where the model is. INTERNAL when that is nowhere.
error *agent_model_dir(const TRITONREPOAGENT_AgentModel *m, TRITONREPOAGENT_ArtifactType *type,
                       const char **dir);
// Puts another directory in its place. INVALID_ARG unless LOAD is running.
error *agent_model_move(TRITONREPOAGENT_AgentModel *m, TRITONREPOAGENT_ArtifactType type,
                        const char *dir);
// A fresh directory that only this user may enter, one for each model and agent.
error *agent_model_acquire_dir(TRITONREPOAGENT_AgentModel *m, TRITONREPOAGENT_ArtifactType type,
                               const char **dir);
error *agent_model_release_dir(TRITONREPOAGENT_AgentModel *m); // UNAVAILABLE when there is none

// What the configuration gives this agent.
const Inference__ModelRepositoryAgents__Agent *
agent_model_settings(const TRITONREPOAGENT_AgentModel *m);
// NULL: where the model is now there is none that can be read.
const Inference__ModelConfig *agent_model_config(const TRITONREPOAGENT_AgentModel *m);
void **agent_model_state(TRITONREPOAGENT_AgentModel *m);

#endif
