// SPDX-License-Identifier: Apache-2.0
// TRITONREPOAGENT_*: a repository agent's questions about itself and its model. Called from inside
// the agent's functions.
#include "api/convert.h"
#include "core/agent_chain.h"
#include "request/message.h"
#include "triton/core/tritonrepoagent.h"

#include <inttypes.h>

// ---- where the model is ----

TRITONSERVER_Error *
TRITONREPOAGENT_ModelRepositoryLocation(TRITONREPOAGENT_Agent *a, TRITONREPOAGENT_AgentModel *m,
                                        TRITONREPOAGENT_ArtifactType *artifact_type,
                                        const char **location)
{
  (void)a;
  return error_to_abi(agent_model_dir(m, artifact_type, location));
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocationAcquire(
    TRITONREPOAGENT_Agent *a, TRITONREPOAGENT_AgentModel *m,
    TRITONREPOAGENT_ArtifactType artifact_type, const char **location)
{
  (void)a;
  return error_to_abi(agent_model_acquire_dir(m, artifact_type, location));
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocationRelease(TRITONREPOAGENT_Agent *a,
                                                                   TRITONREPOAGENT_AgentModel *m,
                                                                   const char *location)
{
  (void)a, (void)location; // a model has at most one
  return error_to_abi(agent_model_release_dir(m));
}

TRITONSERVER_Error *
TRITONREPOAGENT_ModelRepositoryUpdate(TRITONREPOAGENT_Agent *a, TRITONREPOAGENT_AgentModel *m,
                                      TRITONREPOAGENT_ArtifactType artifact_type,
                                      const char *location)
{
  (void)a;
  if (location == NULL)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "location of a model must not be NULL"));
  return error_to_abi(agent_model_move(m, artifact_type, location));
}

// ---- what the configuration says ----

TRITONSERVER_Error *TRITONREPOAGENT_ModelParameterCount(TRITONREPOAGENT_Agent *a,
                                                        TRITONREPOAGENT_AgentModel *m,
                                                        uint32_t *count)
{
  (void)a;
  *count = (uint32_t)agent_model_settings(m)->n_parameters;
  return NULL;
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelParameter(TRITONREPOAGENT_Agent *a,
                                                   TRITONREPOAGENT_AgentModel *m, uint32_t index,
                                                   const char **parameter_name,
                                                   const char **parameter_value)
{
  const Inference__ModelRepositoryAgents__Agent *settings = agent_model_settings(m);
  (void)a;
  if (index >= settings->n_parameters)
    return error_to_abi(error_new(ERROR_INVALID_ARG, "index out of range for model parameters"));
  *parameter_name = settings->parameters[index]->key;
  *parameter_value = settings->parameters[index]->value;
  return NULL;
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelConfig(TRITONREPOAGENT_Agent *a,
                                                TRITONREPOAGENT_AgentModel *m,
                                                uint32_t config_version,
                                                TRITONSERVER_Message **model_config)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  (void)a;
  if (config_version != 1)
    return error_to_abi(error_new(ERROR_INVALID_ARG,
                                  "model configuration version %" PRIu32
                                  " not supported, supported versions are: 1",
                                  config_version));
  const Inference__ModelConfig *config = agent_model_config(m);
  error *e = NULL;
  if (config != NULL)
    e = config_print_json(config, &text);
  else
    buffer_append_text(&text, "{}"); // as in Triton
  if (e == NULL)
    e = message_new_from_buffer(&text, model_config);
  return error_to_abi(e);
}

// ---- what an agent keeps ----

API_GET(TRITONREPOAGENT_ModelState, TRITONREPOAGENT_AgentModel, void *, *agent_model_state(self))

TRITONSERVER_Error *TRITONREPOAGENT_ModelSetState(TRITONREPOAGENT_AgentModel *m, void *state)
{
  *agent_model_state(m) = state;
  return NULL;
}

API_GET(TRITONREPOAGENT_State, TRITONREPOAGENT_Agent, void *, self->state)
API_SET(TRITONREPOAGENT_SetState, TRITONREPOAGENT_Agent, void *, state)
