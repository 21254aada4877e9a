// SPDX-License-Identifier: Apache-2.0
// The actions, as in Triton: LOAD and UNLOAD in the configuration's order, LOAD_COMPLETE, LOAD_FAIL
// and UNLOAD_COMPLETE backwards. After LOAD, an agent's error ends that round and is only logged.
// Before its ModelFinalize an agent hears what it missed (LOAD_FAIL in place of LOAD_COMPLETE).
#include "core/agent_chain.h"

#include "base/cleanup.h"
#include "base/dir.h"
#include "base/log.h"
#include "base/refcount.h"
#include "base/state.h"
#include "base/text.h"
#include "repository/repository.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

// The stage of an agent with a model: the last action begun, if any.
typedef enum agent_stage {
  AGENT_MADE,
  AGENT_INITIALIZED, // ModelInitialize was called: ModelFinalize is due
  AGENT_LOAD,
  AGENT_LOAD_COMPLETE,
  AGENT_LOAD_FAIL,
  AGENT_UNLOAD,
  AGENT_UNLOAD_COMPLETE,
} agent_stage;

struct TRITONREPOAGENT_AgentModel {
  agent *agent;
  const Inference__ModelRepositoryAgents__Agent *settings; // the chain's
  char *dir;                                               // where the model is; "": nowhere
  TRITONREPOAGENT_ArtifactType type;
  char *acquired;                 // NULL: no directory was acquired
  Inference__ModelConfig *config; // at the place that the agent was given; NULL: nothing to read
  void *state;                    // the agent's own
  agent_stage stage;
};
typedef struct TRITONREPOAGENT_AgentModel agent_model;

typedef enum chain_state {
  CHAIN_LOADING,
  CHAIN_LOADED,
  CHAIN_FAILED,
  CHAIN_UNLOADING,
} chain_state;

struct agent_chain {
  refcount references;
  agent_registry *registry;
  chain_state state;
  Inference__ModelConfig *config; // names the agents
  char *dir;                      // the model's, before any agent
  size_t count;
  agent_model *models; // never moved: agents know them by address
};

bool agent_chain_is_wanted(const Inference__ModelConfig *config)
{
  return config->model_repository_agents != NULL && config->model_repository_agents->n_agents > 0;
}

// ---- actions ----

// The stage that an action needs, the stage that it leads to, and its name.
static const struct {
  agent_stage before, stage;
  const char *name;
} actions[] = {
    [TRITONREPOAGENT_ACTION_LOAD] = {AGENT_INITIALIZED, AGENT_LOAD, "TRITONREPOAGENT_ACTION_LOAD"},
    [TRITONREPOAGENT_ACTION_LOAD_COMPLETE] = {AGENT_LOAD, AGENT_LOAD_COMPLETE,
                                              "TRITONREPOAGENT_ACTION_LOAD_COMPLETE"},
    [TRITONREPOAGENT_ACTION_LOAD_FAIL] = {AGENT_LOAD, AGENT_LOAD_FAIL,
                                          "TRITONREPOAGENT_ACTION_LOAD_FAIL"},
    [TRITONREPOAGENT_ACTION_UNLOAD] = {AGENT_LOAD_COMPLETE, AGENT_UNLOAD,
                                       "TRITONREPOAGENT_ACTION_UNLOAD"},
    [TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE] = {AGENT_UNLOAD, AGENT_UNLOAD_COMPLETE,
                                                "TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE"},
};

static error *act(agent_model *m, TRITONREPOAGENT_ActionType action)
{
  assert(m->stage == actions[action].before);
  m->stage = actions[action].stage;
  return (error *)m->agent->functions.model_action(m->agent, m, action);
}

// False when the action fails, which is logged, or is not this agent's next one.
static bool tell(agent_model *m, TRITONREPOAGENT_ActionType action)
{
  if (m->stage != actions[action].before)
    return false;
  AUTO_ERROR error *e = act(m, action);
  if (e != NULL)
    log_error("Agent model returns error on %s: agent '%s' of the model in '%s': %s",
              actions[action].name, m->agent->name, m->dir, error_message(e));
  return e == NULL;
}

static void tell_forwards(agent_chain *chain, TRITONREPOAGENT_ActionType action)
{
  for (size_t i = 0; i < chain->count && tell(&chain->models[i], action); i++)
    ;
}

static void tell_backwards(agent_chain *chain, TRITONREPOAGENT_ActionType action)
{
  for (size_t i = chain->count; i > 0 && tell(&chain->models[i - 1], action); i--)
    ;
}

// ---- making and ending ----

static error *place_model(agent_model *m, const char *dir, TRITONREPOAGENT_ArtifactType type)
{
  m->type = type;
  m->dir = strdup(dir);
  return m->dir == NULL ? error_no_memory() : NULL;
}

static void read_config_there(const agent_chain_source *source, agent_model *m)
{
  repository_dir dir;
  AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
  AUTO_ERROR error *e = repository_open(m->dir, ".", source->links, &dir);
  if (e == NULL)
    e = repository_read_config(&dir, source->config_name, false, &places, &m->config);
  repository_dir_fini(&dir);
}

static error *describe_model(agent_chain *chain, const agent_chain_source *source, agent_model *m)
{
  const agent_model *before = m == chain->models ? NULL : m - 1;
  if (before == NULL) {
    RETURN_IF_ERROR(place_model(m, chain->dir, TRITONREPOAGENT_ARTIFACT_FILESYSTEM));
    return config_copy(source->config, &m->config);
  }
  RETURN_IF_ERROR(place_model(m, before->dir[0] != '\0' ? before->dir : chain->dir, before->type));
  read_config_there(source, m);
  if (m->config == NULL && strcmp(m->dir, chain->dir) == 0) // it came with the request
    return config_copy(source->config, &m->config);
  return NULL;
}

static error *add_agent(agent_chain *chain, const agent_chain_source *source,
                        const Inference__ModelRepositoryAgents__Agent *settings)
{
  agent_model *m = &chain->models[chain->count];
  m->settings = settings;
  RETURN_IF_ERROR(agent_acquire(chain->registry, settings->name, &m->agent));
  chain->count++;
  RETURN_IF_ERROR(describe_model(chain, source, m));
  m->stage = AGENT_INITIALIZED;
  if (m->agent->functions.model_initialize != NULL)
    RETURN_IF_ERROR((error *)m->agent->functions.model_initialize(m->agent, m));
  return act(m, TRITONREPOAGENT_ACTION_LOAD);
}

static void finish_actions(agent_model *m)
{
  if (m->stage == AGENT_LOAD)
    tell(m, TRITONREPOAGENT_ACTION_LOAD_FAIL);
  if (m->stage == AGENT_LOAD_COMPLETE)
    tell(m, TRITONREPOAGENT_ACTION_UNLOAD);
  if (m->stage == AGENT_UNLOAD)
    tell(m, TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE);
}

static void end_model(agent_chain *chain, agent_model *m)
{
  finish_actions(m);
  if (m->stage != AGENT_MADE && m->agent->functions.model_finalize != NULL) {
    AUTO_ERROR error *e = (error *)m->agent->functions.model_finalize(m->agent, m);
    if (e != NULL)
      log_error("agent '%s' failed to finalize the model in '%s': %s", m->agent->name, m->dir,
                error_message(e));
  }
  error_free(agent_model_release_dir(m));
  agent_release(chain->registry, m->agent);
  config_free(m->config);
  free(m->dir);
}

static void free_chain(agent_chain *chain)
{
  if (chain->state == CHAIN_UNLOADING)
    tell_backwards(chain, TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE);
  for (size_t i = 0; i < chain->count; i++)
    end_model(chain, &chain->models[i]);
  config_free(chain->config);
  free(chain->models);
  free(chain->dir);
  free(chain);
}

// The agent that failed ends first.
static error *add_agents(agent_chain *chain, const agent_chain_source *source)
{
  const Inference__ModelRepositoryAgents *wanted = chain->config->model_repository_agents;
  for (size_t i = 0; i < wanted->n_agents; i++) {
    error *e = add_agent(chain, source, wanted->agents[i]);
    if (e == NULL)
      continue;
    if (chain->count > i)
      end_model(chain, &chain->models[--chain->count]);
    return e;
  }
  return NULL;
}

error *agent_chain_new(const agent_chain_source *source, agent_chain **result)
{
  agent_chain *chain = calloc(1, sizeof(*chain));
  if (chain == NULL)
    return error_no_memory();
  refcount_init(&chain->references);
  chain->registry = source->registry;
  error *e = config_copy(source->config, &chain->config);
  chain->models = calloc(source->config->model_repository_agents->n_agents, sizeof(*chain->models));
  if (e == NULL && (chain->models == NULL || (chain->dir = strdup(source->dir)) == NULL))
    e = error_no_memory();
  if (e == NULL)
    e = add_agents(chain, source);
  if (e == NULL)
    *result = chain;
  else
    free_chain(chain);
  return e;
}

error *agent_chain_dir(const agent_chain *chain, const char **dir)
{
  TRITONREPOAGENT_ArtifactType type;
  return agent_model_dir(&chain->models[chain->count - 1], &type, dir);
}

static void set_state(agent_chain *chain, chain_state to)
{
  static const unsigned allowed[] = {
      [CHAIN_LOADING] = STATE_BIT(CHAIN_LOADED) | STATE_BIT(CHAIN_FAILED),
      [CHAIN_LOADED] = STATE_BIT(CHAIN_UNLOADING),
      [CHAIN_FAILED] = 0,
      [CHAIN_UNLOADING] = 0,
  };
  state_assert(allowed, chain->state, to);
  chain->state = to;
}

void agent_chain_loaded(agent_chain *chain, bool complete)
{
  if (chain == NULL)
    return;
  set_state(chain, complete ? CHAIN_LOADED : CHAIN_FAILED);
  tell_backwards(chain, complete ? TRITONREPOAGENT_ACTION_LOAD_COMPLETE
                                 : TRITONREPOAGENT_ACTION_LOAD_FAIL);
}

void agent_chain_unload(agent_chain *chain)
{
  if (chain == NULL || chain->state != CHAIN_LOADED)
    return;
  set_state(chain, CHAIN_UNLOADING);
  tell_forwards(chain, TRITONREPOAGENT_ACTION_UNLOAD);
}

agent_chain *agent_chain_ref(agent_chain *chain)
{
  if (chain != NULL)
    refcount_take(&chain->references);
  return chain;
}

void agent_chain_unref(agent_chain *chain)
{
  if (chain != NULL && refcount_drop(&chain->references))
    free_chain(chain);
}

// ---- what an agent asks ----

error *agent_model_dir(const agent_model *m, TRITONREPOAGENT_ArtifactType *type, const char **dir)
{
  if (m->dir[0] == '\0')
    return error_new(ERROR_INTERNAL, "Model repository location is not set");
  *type = m->type;
  *dir = m->dir;
  return NULL;
}

static const char *last_action(const agent_model *m)
{
  for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
    if (actions[i].stage == m->stage)
      return actions[i].name;
  return "not set";
}

error *agent_model_move(agent_model *m, TRITONREPOAGENT_ArtifactType type, const char *dir)
{
  if (m->stage != AGENT_LOAD)
    return error_new(ERROR_INVALID_ARG,
                     "location can only be updated during TRITONREPOAGENT_ACTION_LOAD, current "
                     "action type is %s",
                     last_action(m));
  if (!text_replace(&m->dir, dir))
    return error_no_memory();
  m->type = type;
  return NULL;
}

error *agent_model_acquire_dir(agent_model *m, TRITONREPOAGENT_ArtifactType type, const char **dir)
{
  if (type != TRITONREPOAGENT_ARTIFACT_FILESYSTEM)
    return error_new(ERROR_INVALID_ARG, "Unexpected artifact type, expects "
                                        "'TRITONREPOAGENT_ARTIFACT_FILESYSTEM'");
  if (m->acquired == NULL && (m->acquired = dir_make_temporary("nereid-agent")) == NULL)
    return error_new(ERROR_UNAVAILABLE, "failed to make a directory for repository agent '%s': %s",
                     m->agent->name, strerror(errno));
  *dir = m->acquired;
  return NULL;
}

error *agent_model_release_dir(agent_model *m)
{
  if (m->acquired == NULL)
    return error_new(ERROR_UNAVAILABLE, "No mutable location to be deleted");
  if (!dir_remove_path(m->acquired))
    log_error("Failed to delete previously acquired location '%s': %s", m->acquired,
              strerror(errno));
  free(m->acquired);
  m->acquired = NULL;
  return NULL;
}

const Inference__ModelRepositoryAgents__Agent *agent_model_settings(const agent_model *m)
{
  return m->settings;
}

const Inference__ModelConfig *agent_model_config(const agent_model *m)
{
  return m->config;
}

void **agent_model_state(agent_model *m)
{
  return &m->state;
}
