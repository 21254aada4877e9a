// Has a model complete its configuration (auto_complete_config) in a first worker, which is kept
// for the model's first instance. Load threads.
#include "instance/model_load.h"

#include "backend_config.h"
#include "backend_error.h"
#include "backend_log.h"
#include "instance/instance.h"

#include <stdlib.h>

// Gives the configuration that the model's auto_complete_config returned to the server.
static TRITONSERVER_Error *set_completed(python_model *self, const char *completed)
{
  json_error_t problem;
  json_t *config = json_loads(completed, JSON_ALLOW_NUL, &problem);
  if (config == NULL)
    return backend_error(TRITONSERVER_ERROR_INTERNAL, "Failed to parse auto-complete JSON.");
  TRITONSERVER_Error *error = backend_model_set_config(self->server_model, config);
  json_decref(config);
  if (error == NULL || TRITONSERVER_ErrorCode(error) != TRITONSERVER_ERROR_INVALID_ARG)
    return error;
  // As in Triton: what is read, but makes no valid configuration, fails the load later.
  BACKEND_LOG_WARN(
      "model '%s': what auto_complete_config gave is no configuration and is left out, "
      "the model is loaded without it: %s",
      self->name, TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return NULL;
}

TRITONSERVER_Error *python_model_complete(python_model *self, const instance_calls *calls_kind)
{
  bool wanted = false;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ModelAutoCompleteConfig(self->server_model, &wanted));
  if (!wanted)
    return NULL;
  char *completed = NULL;
  BACKEND_RETURN_IF_ERROR(python_instance_start(self, self->name, calls_kind, &self->spare));
  BACKEND_RETURN_IF_ERROR(worker_complete(self->spare->worker, self->config_text, &completed));
  if (completed == NULL)
    return NULL;
  TRITONSERVER_Error *error = set_completed(self, completed);
  free(completed);
  BACKEND_RETURN_IF_ERROR(error);
  return python_model_read_config(self);
}

python_instance *python_model_take_spare(python_model *self)
{
  pthread_mutex_lock(&self->lock);
  python_instance *spare = self->spare;
  self->spare = NULL;
  pthread_mutex_unlock(&self->lock);
  return spare;
}
