// SPDX-License-Identifier: Apache-2.0
// A server for trials; see model_trial.h.
#include "check/model_trial.h"

#include "core/server_status.h"

error *model_trial_begin(model_trial *trial, const server_options *options,
                         const string_list *repositories)
{
  server_options own;
  RETURN_IF_ERROR(server_options_copy(&own, options));
  string_list_fini(&own.model_repositories);
  string_list_fini(&own.startup_models);
  own.model_control_mode = TRITONSERVER_MODEL_CONTROL_EXPLICIT;
  own.on_demand = false;
  own.background_load = false;
  own.metrics = false;
  error *e = NULL;
  for (size_t i = 0; e == NULL && i < repositories->count; i++)
    if (!string_list_add(&own.model_repositories, repositories->items[i]))
      e = error_no_memory();
  if (e == NULL)
    e = server_new(&own, &trial->server);
  server_options_fini(&own);
  return e;
}

error *model_trial_load(model_trial *trial, const char *name)
{
  RETURN_IF_ERROR(server_load_model(trial->server, name, NULL));
  return server_unload_model(trial->server, name, true);
}

error *model_trial_config(model_trial *trial, const char *name, Inference__ModelConfig **config)
{
  model *m;
  RETURN_IF_ERROR(server_load_model(trial->server, name, NULL));
  RETURN_IF_ERROR(server_find_model(trial->server, name, -1, &m));
  error *e = config_copy(m->config, config);
  model_unref(m);
  return e;
}

void model_trial_end(model_trial *trial)
{
  if (trial->server != NULL)
    server_free(trial->server);
  trial->server = NULL;
}
