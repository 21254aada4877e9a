// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_Server*: thin calls into core/server. Any thread. Starting, loading, unloading,
// polling and stopping block.
#include "api/convert.h"
#include "base/cleanup.h"
#include "core/server.h"
#include "core/server_state.h"
#include "core/server_status.h"
#include "nereid/nereid.h"
#include "repository/upload.h"
#include "request/parameter.h"

#include <assert.h>
#include <string.h>

TRITONSERVER_Error *TRITONSERVER_ServerNew(TRITONSERVER_Server **s,
                                           TRITONSERVER_ServerOptions *options)
{
  return error_to_abi(server_new(options, s));
}

TRITONSERVER_Error *TRITONSERVER_ServerDelete(TRITONSERVER_Server *s)
{
  server_free(s);
  return NULL;
}

void NEREID_ServerEndSequences(TRITONSERVER_Server *s)
{
  server_end_sequences(s);
}

bool NEREID_ServerAnswers(TRITONSERVER_Server *s)
{
  return timekeeper_answers(s->timekeeper);
}

uint64_t NEREID_ServerInflight(TRITONSERVER_Server *s)
{
  return server_inflight(s);
}

TRITONSERVER_Error *TRITONSERVER_ServerStop(TRITONSERVER_Server *s)
{
  return error_to_abi(server_stop(s));
}

TRITONSERVER_Error *TRITONSERVER_ServerSetExitTimeout(TRITONSERVER_Server *s, unsigned int timeout)
{
  server_set_exit_timeout(s, timeout);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerPollModelRepository(TRITONSERVER_Server *s)
{
  return error_to_abi(server_poll(s));
}

TRITONSERVER_Error *TRITONSERVER_ServerIsLive(TRITONSERVER_Server *s, bool *live)
{
  return error_to_abi(server_is_live(s, live));
}

TRITONSERVER_Error *TRITONSERVER_ServerIsReady(TRITONSERVER_Server *s, bool *ready)
{
  return error_to_abi(server_is_ready(s, ready));
}

TRITONSERVER_Error *TRITONSERVER_ServerModelIsReady(TRITONSERVER_Server *s, const char *model_name,
                                                    int64_t model_version, bool *ready)
{
  return error_to_abi(server_model_is_ready(s, model_name, model_version, ready));
}

TRITONSERVER_Error *TRITONSERVER_ServerModelBatchProperties(TRITONSERVER_Server *s,
                                                            const char *model_name,
                                                            int64_t model_version, uint32_t *flags,
                                                            void **voidp)
{
  model *m;
  if (voidp != NULL)
    *voidp = NULL;
  error *e = server_find_model(s, model_name, model_version, &m);
  if (e != NULL)
    return error_to_abi(e);
  *flags = m->shared.max_batch_size > 0 ? TRITONSERVER_BATCH_FIRST_DIM : TRITONSERVER_BATCH_UNKNOWN;
  model_unref(m);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerModelTransactionProperties(TRITONSERVER_Server *s,
                                                                  const char *model_name,
                                                                  int64_t model_version,
                                                                  uint32_t *txn_flags, void **voidp)
{
  model *m;
  if (voidp != NULL)
    *voidp = NULL;
  error *e = server_find_model(s, model_name, model_version, &m);
  if (e != NULL)
    return error_to_abi(e);
  *txn_flags =
      config_is_decoupled(m->config) ? TRITONSERVER_TXN_DECOUPLED : TRITONSERVER_TXN_ONE_TO_ONE;
  model_unref(m);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerLoadModel(TRITONSERVER_Server *s, const char *model_name)
{
  return error_to_abi(server_load_model(s, model_name, NULL));
}

// A load's parameters: the text of "config" (NULL: none) and files, all borrowed.
typedef struct load_content {
  const char *config;
  uploaded_file *files;
  size_t file_count, room;
} load_content;

static error *read_load_parameter(const parameter *p, load_content *content)
{
  if (strncmp(p->name, "file:", 5) == 0 && p->type == TRITONSERVER_PARAMETER_BYTES) {
    assert(content->file_count < content->room);
    content->files[content->file_count++] =
        (uploaded_file){p->name + 5, p->value.bytes, (size_t)p->byte_size};
  } else if (strcmp(p->name, "config") == 0 && p->type == TRITONSERVER_PARAMETER_STRING) {
    content->config = p->value.string;
  } else {
    return error_new(ERROR_INVALID_ARG, "Unrecognized load parameter '%s' with type '%s'", p->name,
                     TRITONSERVER_ParameterTypeString(p->type));
  }
  return NULL;
}

static error *load_with(server *s, const char *name, const TRITONSERVER_Parameter **parameters,
                        uint64_t count)
{
  uploaded_file *files AUTO_FREE = calloc((size_t)count + 1, sizeof(*files));
  load_content content = {.files = files, .room = (size_t)count};
  if (files == NULL)
    return error_no_memory();
  for (uint64_t i = 0; i < count; i++)
    RETURN_IF_ERROR(read_load_parameter(parameters[i], &content));
  if (content.file_count > 0)
    return server_load_model_files(s, name, content.config, files, content.file_count);
  return server_load_model(s, name, content.config);
}

TRITONSERVER_Error *
TRITONSERVER_ServerLoadModelWithParameters(TRITONSERVER_Server *s, const char *model_name,
                                           const TRITONSERVER_Parameter **parameters,
                                           uint64_t parameter_count)
{
  return error_to_abi(load_with(s, model_name, parameters, parameter_count));
}

TRITONSERVER_Error *TRITONSERVER_ServerUnloadModel(TRITONSERVER_Server *s, const char *model_name)
{
  return error_to_abi(server_unload_model(s, model_name, false));
}

TRITONSERVER_Error *TRITONSERVER_ServerUnloadModelAndDependents(TRITONSERVER_Server *s,
                                                                const char *model_name)
{
  return error_to_abi(server_unload_model(s, model_name, true));
}
