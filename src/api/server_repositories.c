// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_Server…ModelRepository: adds and removes repositories. Any thread.
#include "api/convert.h"
#include "base/cleanup.h"
#include "core/repository_control.h"
#include "request/parameter.h"

#include <stdlib.h>
#include <string.h>

static error *read_mapping(const char *path, const parameter *from, repository_mapping *mappings,
                           size_t count)
{
  if (from->type != TRITONSERVER_PARAMETER_STRING)
    return error_new(ERROR_INVALID_ARG,
                     "Mapped model name must be a string, found another type for %s", from->name);
  for (size_t i = 0; i < count; i++)
    if (strcmp(mappings[i].model, from->value.string) == 0)
      return error_new(ERROR_INVALID_ARG,
                       "failed to register '%s', there is a conflicting mapping for '%s'", path,
                       from->value.string);
  mappings[count] = (repository_mapping){(char *)from->value.string, (char *)from->name};
  return NULL;
}

static error *register_repository(server *s, const char *path, const parameter **from, size_t count)
{
  if (from == NULL && count > 0)
    return error_new(ERROR_INVALID_ARG,
                     "model mappings are not provided while mapping count is non-zero");
  repository_mapping *mappings AUTO_FREE = calloc(count + 1, sizeof(*mappings));
  if (mappings == NULL)
    return error_no_memory();
  for (size_t i = 0; i < count; i++)
    RETURN_IF_ERROR(read_mapping(path, from[i], mappings, i));
  return server_register_repository(s, path, mappings, count);
}

TRITONSERVER_Error *
TRITONSERVER_ServerRegisterModelRepository(TRITONSERVER_Server *s, const char *repository_path,
                                           const TRITONSERVER_Parameter **name_mapping,
                                           uint32_t mapping_count)
{
  return error_to_abi(register_repository(s, repository_path, name_mapping, mapping_count));
}

TRITONSERVER_Error *TRITONSERVER_ServerUnregisterModelRepository(TRITONSERVER_Server *s,
                                                                 const char *repository_path)
{
  return error_to_abi(server_unregister_repository(s, repository_path));
}
