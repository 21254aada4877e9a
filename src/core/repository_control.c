// SPDX-License-Identifier: Apache-2.0
// Checks who may change the set of repositories. Models that serve are not affected; the next load
// or index uses the new set.
#include "core/repository_control.h"

#include "base/log.h"
#include "core/server_state.h"

static error *check_control(const server *s, const char *what)
{
  if (s->options.model_control_mode != TRITONSERVER_MODEL_CONTROL_EXPLICIT)
    return error_new(ERROR_UNSUPPORTED,
                     "repository %s is not allowed if model control mode is not EXPLICIT", what);
  return NULL;
}

error *server_register_repository(server *s, const char *path, const repository_mapping *mappings,
                                  size_t mapping_count)
{
  RETURN_IF_ERROR(check_control(s, "registration"));
  RETURN_IF_ERROR(repository_set_add(&s->repositories, path, mappings, mapping_count));
  log_info("Model repository registered: %s", path);
  return NULL;
}

error *server_unregister_repository(server *s, const char *path)
{
  RETURN_IF_ERROR(check_control(s, "unregistration"));
  RETURN_IF_ERROR(repository_set_remove(&s->repositories, path));
  log_info("Model repository unregistered: %s", path);
  return NULL;
}
