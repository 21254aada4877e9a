// SPDX-License-Identifier: Apache-2.0
// Calls the core through the north seam.
#include "frontend/common/admin/model_admin.h"

#include "base/text.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/frontend_log.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG_VERSION 1 // of the JSON form of a model's configuration

bool load_parameter_is_config(const char *name)
{
  return strcmp(name, "config") == 0;
}

bool load_parameter_is_file(const char *name)
{
  return text_starts_with(name, "file:");
}

// False when memory is short.
static bool make_parameters(const load_parameter *from, size_t count, TRITONSERVER_Parameter **to)
{
  bool made = to != NULL;
  for (size_t i = 0; made && i < count; i++) {
    to[i] =
        load_parameter_is_config(from[i].name)
            ? TRITONSERVER_ParameterNew(from[i].name, TRITONSERVER_PARAMETER_STRING,
                                        from[i].value.data)
            : TRITONSERVER_ParameterBytesNew(from[i].name, from[i].value.data, from[i].value.size);
    made = to[i] != NULL;
  }
  return made;
}

error *model_admin_load(TRITONSERVER_Server *server, const char *model,
                        const load_parameter *parameters, size_t count)
{
  TRITONSERVER_Parameter **made = calloc(count + 1, sizeof(TRITONSERVER_Parameter *));
  error *failure = make_parameters(parameters, count, made)
                       ? error_from_abi(TRITONSERVER_ServerLoadModelWithParameters(
                             server, model, (const TRITONSERVER_Parameter **)made, count))
                       : error_no_memory();
  for (size_t i = 0; made != NULL && made[i] != NULL; i++)
    TRITONSERVER_ParameterDelete(made[i]);
  free((void *)made);
  return failure;
}

error *model_admin_unload(TRITONSERVER_Server *server, const char *model, bool dependents)
{
  return error_from_abi(dependents ? TRITONSERVER_ServerUnloadModelAndDependents(server, model)
                                   : TRITONSERVER_ServerUnloadModel(server, model));
}

TRITONSERVER_Error *model_admin_config(TRITONSERVER_Server *server, const char *model,
                                       int64_t version, TRITONSERVER_Message **message)
{
  return TRITONSERVER_ServerModelConfig(server, model, version, CONFIG_VERSION, message);
}

error *admin_take_json(TRITONSERVER_Error *failure_owned, TRITONSERVER_Message **response_owned,
                       buffer *json)
{
  const char *text;
  size_t size;
  if (failure_owned != NULL)
    return error_from_abi(failure_owned);
  error *failure =
      error_from_abi(TRITONSERVER_MessageSerializeToJson(*response_owned, &text, &size));
  if (failure == NULL)
    buffer_append(json, text, size);
  if (failure == NULL && json->failed)
    failure = error_no_memory();
  frontend_log_failure(NULL, "deleting a response of the core",
                       TRITONSERVER_MessageDelete(*response_owned));
  return failure;
}
