// TRITONSERVER_Server*: thin calls into core/server. Any thread; those that load, unload, start and
// stop block.
#include "core/server.h"
#include "api/convert.h"
#include "request/parameter.h"

#include <string.h>

static server *of(TRITONSERVER_Server *s)
{
  return (server *)s;
}

TRITONSERVER_Error *TRITONSERVER_ServerNew(TRITONSERVER_Server **s,
                                           TRITONSERVER_ServerOptions *options)
{
  return error_to_abi(server_new(options, (server **)s));
}

TRITONSERVER_Error *TRITONSERVER_ServerDelete(TRITONSERVER_Server *s)
{
  server_free(of(s));
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerStop(TRITONSERVER_Server *s)
{
  return error_to_abi(server_stop(of(s)));
}

TRITONSERVER_Error *TRITONSERVER_ServerSetExitTimeout(TRITONSERVER_Server *s, unsigned int timeout)
{
  server_set_exit_timeout(of(s), timeout);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerPollModelRepository(TRITONSERVER_Server *s)
{
  return error_to_abi(server_await_startup(of(s)));
}

TRITONSERVER_Error *TRITONSERVER_ServerIsLive(TRITONSERVER_Server *s, bool *live)
{
  return error_to_abi(server_is_live(of(s), live));
}

TRITONSERVER_Error *TRITONSERVER_ServerIsReady(TRITONSERVER_Server *s, bool *ready)
{
  return error_to_abi(server_is_ready(of(s), ready));
}

TRITONSERVER_Error *TRITONSERVER_ServerModelIsReady(TRITONSERVER_Server *s, const char *model_name,
                                                    int64_t model_version, bool *ready)
{
  return error_to_abi(server_model_is_ready(of(s), model_name, model_version, ready));
}

TRITONSERVER_Error *TRITONSERVER_ServerModelBatchProperties(TRITONSERVER_Server *s,
                                                            const char *model_name,
                                                            int64_t model_version, uint32_t *flags,
                                                            void **voidp)
{
  model *m;
  if (voidp != NULL)
    *voidp = NULL;
  error *e = server_find_model(of(s), model_name, model_version, &m);
  if (e != NULL)
    return error_to_abi(e);
  *flags = model_max_batch_size(m) > 0 ? TRITONSERVER_BATCH_FIRST_DIM : TRITONSERVER_BATCH_UNKNOWN;
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
  error *e = server_find_model(of(s), model_name, model_version, &m);
  if (e != NULL)
    return error_to_abi(e);
  *txn_flags = config_is_decoupled(model_config(m)) ? TRITONSERVER_TXN_DECOUPLED
                                                    : TRITONSERVER_TXN_ONE_TO_ONE;
  model_unref(m);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerLoadModel(TRITONSERVER_Server *s, const char *model_name)
{
  return error_to_abi(server_load_model(of(s), model_name, NULL));
}

// The text of the parameter "config"; NULL when there is none.
static error *config_override(const TRITONSERVER_Parameter **parameters, uint64_t count,
                              const char **config)
{
  *config = NULL;
  for (uint64_t i = 0; i < count; i++) {
    const parameter *p = parameters[i];
    if (strncmp(p->name, "file:", 5) == 0)
      return error_new(ERROR_UNSUPPORTED,
                       "load parameter '%s': loading a model from uploaded files is not supported "
                       "by nereid yet",
                       p->name);
    if (strcmp(p->name, "config") != 0 || p->type != TRITONSERVER_PARAMETER_STRING)
      return error_new(ERROR_INVALID_ARG, "Unrecognized load parameter '%s' with type '%s'",
                       p->name, TRITONSERVER_ParameterTypeString(p->type));
    *config = p->value.string;
  }
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_ServerLoadModelWithParameters(TRITONSERVER_Server *s, const char *model_name,
                                           const TRITONSERVER_Parameter **parameters,
                                           uint64_t parameter_count)
{
  const char *config;
  error *e = config_override(parameters, parameter_count, &config);
  return error_to_abi(e != NULL ? e : server_load_model(of(s), model_name, config));
}

TRITONSERVER_Error *TRITONSERVER_ServerUnloadModel(TRITONSERVER_Server *s, const char *model_name)
{
  return error_to_abi(server_unload_model(of(s), model_name));
}

// No model is loaded because of another one yet, so there are no dependents.
TRITONSERVER_Error *TRITONSERVER_ServerUnloadModelAndDependents(TRITONSERVER_Server *s,
                                                                const char *model_name)
{
  return error_to_abi(server_unload_model(of(s), model_name));
}
