// SPDX-License-Identifier: Apache-2.0
// The interface between the server and repository agents, which may check or change a model's
// files before they are loaded: what a libtritonrepoagent_NAME.so implements and may call.
// Binary compatible with Triton Inference Server's repository agent API of the version below.
// The rules of tritonserver.h hold.
#pragma once

#include "triton/core/tritonserver.h"

#if defined(__GNUC__)
#define TRITONREPOAGENT_DECLSPEC __attribute__((visibility("default")))
#define TRITONREPOAGENT_ISPEC    __attribute__((visibility("default")))
#else
#define TRITONREPOAGENT_DECLSPEC
#define TRITONREPOAGENT_ISPEC
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TRITONREPOAGENT_API_VERSION_MAJOR 0
#define TRITONREPOAGENT_API_VERSION_MINOR 1

typedef struct TRITONREPOAGENT_Agent TRITONREPOAGENT_Agent;
typedef struct TRITONREPOAGENT_AgentModel TRITONREPOAGENT_AgentModel;

/// The version that the server implements.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ApiVersion(uint32_t *major,
                                                                        uint32_t *minor);

/// The place of a model's files. FILESYSTEM: a directory of this machine. REMOTE_FILESYSTEM: an
/// address that the server can read.
typedef enum TRITONREPOAGENT_artifacttype_enum {
  TRITONREPOAGENT_ARTIFACT_FILESYSTEM,
  TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM
} TRITONREPOAGENT_ArtifactType;

/// The steps in a model's life. LOAD is followed by LOAD_COMPLETE or LOAD_FAIL; UNLOAD by
/// UNLOAD_COMPLETE. LOAD_FAIL is the last action of a model, and so is UNLOAD_COMPLETE.
typedef enum TRITONREPOAGENT_actiontype_enum {
  TRITONREPOAGENT_ACTION_LOAD,
  TRITONREPOAGENT_ACTION_LOAD_COMPLETE,
  TRITONREPOAGENT_ACTION_LOAD_FAIL,
  TRITONREPOAGENT_ACTION_UNLOAD,
  TRITONREPOAGENT_ACTION_UNLOAD_COMPLETE
} TRITONREPOAGENT_ActionType;

// --- Functions of the server for agents

/// The present location of the model's files, as set by earlier agents; borrowed until the action
/// ends.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocation(
    TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
    TRITONREPOAGENT_ArtifactType *artifact_type, const char **location);

/// Makes an empty place for the agent's changed copy of the model; the path is borrowed.
/// INVALID_ARG for REMOTE_FILESYSTEM. The server removes the place with the model, if the agent
/// does not before.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocationAcquire(
    TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
    TRITONREPOAGENT_ArtifactType artifact_type, const char **location);

/// Removes the place that was acquired; UNAVAILABLE when there is none.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryLocationRelease(
    TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, const char *location);

/// During LOAD: the server loads the model from `location` from now on. INVALID_ARG during any
/// other action.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_ModelRepositoryUpdate(
    TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
    TRITONREPOAGENT_ArtifactType artifact_type, const char *location);

/// How many parameters the model's configuration has for this agent.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *
TRITONREPOAGENT_ModelParameterCount(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
                                    uint32_t *count);

/// Parameter `index`; borrowed. INVALID_ARG when `index` is out of range.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *
TRITONREPOAGENT_ModelParameter(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
                               uint32_t index, const char **parameter_name,
                               const char **parameter_value);

/// The model's configuration as JSON, not completed; `config_version` must be 1. The caller
/// owns the message.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *
TRITONREPOAGENT_ModelConfig(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
                            uint32_t config_version, TRITONSERVER_Message **model_config);

/// The pointer that TRITONREPOAGENT_ModelSetState stored, NULL before.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *
TRITONREPOAGENT_ModelState(TRITONREPOAGENT_AgentModel *model, void **state);

/// Stores a pointer of the agent's own for this model.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *
TRITONREPOAGENT_ModelSetState(TRITONREPOAGENT_AgentModel *model, void *state);

/// The pointer that TRITONREPOAGENT_SetState stored, NULL before.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_State(TRITONREPOAGENT_Agent *agent,
                                                                   void **state);

/// Stores a pointer of the agent's own.
TRITONREPOAGENT_DECLSPEC TRITONSERVER_Error *TRITONREPOAGENT_SetState(TRITONREPOAGENT_Agent *agent,
                                                                      void *state);

// --- Entry points: an agent's library defines these, the server calls them. Only
// --- TRITONREPOAGENT_ModelAction is required.

/// Called once after the library is loaded. An error refuses the agent and the models that name
/// it.
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *TRITONREPOAGENT_Initialize(TRITONREPOAGENT_Agent *agent);

/// Called once, after the last model is gone.
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *TRITONREPOAGENT_Finalize(TRITONREPOAGENT_Agent *agent);

/// Called for each model that names the agent, before its first action.
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *
TRITONREPOAGENT_ModelInitialize(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model);

/// Called after the model's last action.
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *
TRITONREPOAGENT_ModelFinalize(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model);

/// Called for each action. An error on LOAD fails the load; on any other action it is only
/// logged. Different models may be handled at the same time.
TRITONREPOAGENT_ISPEC TRITONSERVER_Error *
TRITONREPOAGENT_ModelAction(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
                            TRITONREPOAGENT_ActionType action_type);

#ifdef __cplusplus
}
#endif
