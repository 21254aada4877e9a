// SPDX-License-Identifier: Apache-2.0
// The agents of one load of a model, in the configuration's order. The load and every version that
// it made hold references; the last one ends the chain, on a thread that must not serve requests.
// The holder of the model's entry (core/model_table.h) calls the actions, one at a time and without
// a lock.
#ifndef NEREID_CORE_AGENT_CHAIN_H
#define NEREID_CORE_AGENT_CHAIN_H

#include "base/error.h"
#include "config/config.h"
#include "core/agent.h"

#include <stdbool.h>

typedef struct agent_chain agent_chain;

// The description of a model for its agents.
typedef struct agent_chain_source {
  agent_registry *registry;
  const Inference__ModelConfig *config; // as it was read
  const char *dir;                      // the model's directory
  const file_policy *links;             // which links in it are followed
  const char *config_name;              // as repository_read_config takes it
} agent_chain_source;

// Whether the configuration names agents.
bool agent_chain_is_wanted(const Inference__ModelConfig *config);

// Calls ModelInitialize and LOAD of each agent in turn. Each agent gets the directory that the
// agent before it left, and the configuration in there. The first error ends this and is returned;
// agents that were told LOAD are told LOAD_FAIL.
error *agent_chain_new(const agent_chain_source *source, agent_chain **chain);

// The model's directory now. INTERNAL when an agent removed it.
error *agent_chain_dir(const agent_chain *chain, const char **dir);

// Tells LOAD_COMPLETE or LOAD_FAIL, the last agent first. NULL, here and below: no agents.
void agent_chain_loaded(agent_chain *chain, bool complete);
// Tells UNLOAD, the first agent first; does something only once, after LOAD_COMPLETE.
void agent_chain_unload(agent_chain *chain);

agent_chain *agent_chain_ref(agent_chain *chain);
// The last reference tells UNLOAD_COMPLETE, or what an agent has not heard yet, then calls
// ModelFinalize and removes acquired directories.
void agent_chain_unref(agent_chain *chain);

// ---- what an agent asks about a model (api/repository_agent.c) ----

// Where the model is. INTERNAL when no directory is set.
error *agent_model_dir(const TRITONREPOAGENT_AgentModel *m, TRITONREPOAGENT_ArtifactType *type,
                       const char **dir);
// Puts another directory in its place. INVALID_ARG unless LOAD is running.
error *agent_model_move(TRITONREPOAGENT_AgentModel *m, TRITONREPOAGENT_ArtifactType type,
                        const char *dir);
// A fresh directory that only this user may enter, one for each model and agent.
error *agent_model_acquire_dir(TRITONREPOAGENT_AgentModel *m, TRITONREPOAGENT_ArtifactType type,
                               const char **dir);
error *agent_model_release_dir(TRITONREPOAGENT_AgentModel *m); // UNAVAILABLE when there is none

// The agent's part of the configuration.
const Inference__ModelRepositoryAgents__Agent *
agent_model_settings(const TRITONREPOAGENT_AgentModel *m);
// NULL: the model's directory has no configuration that can be read.
const Inference__ModelConfig *agent_model_config(const TRITONREPOAGENT_AgentModel *m);
void **agent_model_state(TRITONREPOAGENT_AgentModel *m);

#endif
