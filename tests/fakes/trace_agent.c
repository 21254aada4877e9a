// SPDX-License-Identifier: Apache-2.0
// A repository agent as somebody else would write it, for tests: it sees the public header only. It
// appends a line for each call to the file that TRACE_AGENT_LOG names, and its parameters say
// what else it does: `label` is on its lines; `fail` is a call that fails; `move` is how LOAD moves
// the model (copy, or missing, empty, null, remote, released); `write` is a configuration for the
// copy.
#include "triton/core/tritonrepoagent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETURN_IF_ERROR(expression)                                                                \
  do {                                                                                             \
    TRITONSERVER_Error *error = (expression);                                                      \
    if (error != NULL)                                                                             \
      return error;                                                                                \
  } while (0)

static const char *const actions[] = {"LOAD", "LOAD_COMPLETE", "LOAD_FAIL", "UNLOAD",
                                      "UNLOAD_COMPLETE"};

// The parameter, or "".
static const char *parameter(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model,
                             const char *wanted)
{
  uint32_t count = 0;
  const char *name, *value;
  TRITONSERVER_ErrorDelete(TRITONREPOAGENT_ModelParameterCount(agent, model, &count));
  for (uint32_t i = 0; i < count; i++)
    if (TRITONREPOAGENT_ModelParameter(agent, model, i, &name, &value) == NULL &&
        strcmp(name, wanted) == 0)
      return value;
  return "";
}

static void trace(const char *label, const char *call, const char *more)
{
  const char *path = getenv("TRACE_AGENT_LOG");
  FILE *file = path == NULL ? NULL : fopen(path, "a");
  if (file == NULL)
    return;
  fprintf(file, "%s %s %s\n", label, call, more);
  fclose(file);
}

static TRITONSERVER_Error *outcome(const char *asked_to_fail, const char *call)
{
  char text[128];
  if (strcmp(asked_to_fail, call) != 0)
    return NULL;
  snprintf(text, sizeof(text), "told to fail at %s", call);
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, text);
}

// The model's directory and the line of its configuration's max_batch_size.
static void describe(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model, char *text,
                     size_t size)
{
  const char *dir = "", *json = "";
  size_t json_size = 0;
  TRITONREPOAGENT_ArtifactType type;
  TRITONSERVER_Message *config = NULL;
  TRITONSERVER_Error *error = TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &type, &dir);
  if (error != NULL)
    dir = TRITONSERVER_ErrorMessage(error);
  TRITONSERVER_ErrorDelete(TRITONREPOAGENT_ModelConfig(agent, model, 1, &config));
  if (config != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MessageSerializeToJson(config, &json, &json_size));
  const char *found = strstr(json, "\"max_batch_size\":");
  snprintf(text, size, "at %s batch %d", dir, found != NULL ? atoi(found + 17) : -1);
  if (config != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(config));
  if (error != NULL)
    TRITONSERVER_ErrorDelete(error);
}

TRITONSERVER_Error *TRITONREPOAGENT_Initialize(TRITONREPOAGENT_Agent *agent)
{
  const char *fail = getenv("TRACE_AGENT_FAIL");
  trace("-", "Initialize", "");
  RETURN_IF_ERROR(outcome(fail == NULL ? "" : fail, "Initialize"));
  return TRITONREPOAGENT_SetState(agent, (void *)actions);
}

TRITONSERVER_Error *TRITONREPOAGENT_Finalize(TRITONREPOAGENT_Agent *agent)
{
  void *state = NULL;
  RETURN_IF_ERROR(TRITONREPOAGENT_State(agent, &state));
  trace("-", "Finalize", state == (void *)actions ? "with state" : "");
  return NULL;
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelInitialize(TRITONREPOAGENT_Agent *agent,
                                                    TRITONREPOAGENT_AgentModel *model)
{
  char *text = malloc(512);
  describe(agent, model, text, 512);
  trace(parameter(agent, model, "label"), "ModelInitialize", text);
  RETURN_IF_ERROR(TRITONREPOAGENT_ModelSetState(model, text));
  return outcome(parameter(agent, model, "fail"), "ModelInitialize");
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelFinalize(TRITONREPOAGENT_Agent *agent,
                                                  TRITONREPOAGENT_AgentModel *model)
{
  void *state = NULL;
  RETURN_IF_ERROR(TRITONREPOAGENT_ModelState(model, &state));
  trace(parameter(agent, model, "label"), "ModelFinalize", state == NULL ? "" : "with state");
  free(state);
  return outcome(parameter(agent, model, "fail"), "ModelFinalize");
}

static TRITONSERVER_Error *copy(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model)
{
  const char *from, *to;
  char command[2048];
  TRITONREPOAGENT_ArtifactType type;
  RETURN_IF_ERROR(TRITONREPOAGENT_ModelRepositoryLocation(agent, model, &type, &from));
  RETURN_IF_ERROR(TRITONREPOAGENT_ModelRepositoryLocationAcquire(
      agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM, &to));
  snprintf(command, sizeof(command), "cp -r '%s/.' '%s'", from, to);
  if (system(command) != 0)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "cannot copy");
  const char *config = parameter(agent, model, "write");
  snprintf(command, sizeof(command), "%s/config.pbtxt", to);
  FILE *file = config[0] == '\0' ? NULL : fopen(command, "w");
  if (file != NULL) {
    fputs(config, file);
    fclose(file);
  }
  return TRITONREPOAGENT_ModelRepositoryUpdate(agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM,
                                               to);
}

static TRITONSERVER_Error *move(TRITONREPOAGENT_Agent *agent, TRITONREPOAGENT_AgentModel *model)
{
  const char *how = parameter(agent, model, "move");
  const char *dir = strcmp(how, "missing") == 0  ? "/nowhere/at/all"
                    : strcmp(how, "empty") == 0  ? ""
                    : strcmp(how, "remote") == 0 ? "s3://bucket/model"
                                                 : NULL;
  if (how[0] == '\0')
    return NULL;
  if (strcmp(how, "copy") == 0)
    return copy(agent, model);
  if (strcmp(how, "released") == 0) {
    RETURN_IF_ERROR(copy(agent, model));
    return TRITONREPOAGENT_ModelRepositoryLocationRelease(agent, model, "");
  }
  return TRITONREPOAGENT_ModelRepositoryUpdate(agent, model,
                                               strcmp(how, "remote") == 0
                                                   ? TRITONREPOAGENT_ARTIFACT_REMOTE_FILESYSTEM
                                                   : TRITONREPOAGENT_ARTIFACT_FILESYSTEM,
                                               dir);
}

TRITONSERVER_Error *TRITONREPOAGENT_ModelAction(TRITONREPOAGENT_Agent *agent,
                                                TRITONREPOAGENT_AgentModel *model,
                                                TRITONREPOAGENT_ActionType action)
{
  char text[512];
  describe(agent, model, text, sizeof(text));
  trace(parameter(agent, model, "label"), actions[action], text);
  if (action == TRITONREPOAGENT_ACTION_LOAD)
    RETURN_IF_ERROR(move(agent, model));
  else { // too late
    TRITONSERVER_Error *refused = TRITONREPOAGENT_ModelRepositoryUpdate(
        agent, model, TRITONREPOAGENT_ARTIFACT_FILESYSTEM, "/nowhere");
    trace(parameter(agent, model, "label"), "refused",
          refused == NULL ? "not" : TRITONSERVER_ErrorMessage(refused));
    TRITONSERVER_ErrorDelete(refused);
  }
  return outcome(parameter(agent, model, "fail"), actions[action]);
}
