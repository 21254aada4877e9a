// SPDX-License-Identifier: Apache-2.0
// The repository extension: index, load, unload, in jobs, because each may take long.
#include "frontend/common/admin/model_admin.h"
#include "frontend/common/policy/code_upload.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/call/grpc_access.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/service/control_method.h"
#include "frontend/grpc/service/handlers.h"

#include <string.h>

#define CHOICE(name) INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_##name##_PARAM

typedef Inference__ModelRepositoryParameter value_message;

static error *refuse_named(const char *repository_name)
{
  return repository_name[0] == '\0'
             ? NULL
             : error_new(ERROR_UNSUPPORTED, "'repository_name' specification is not supported");
}

// Is the value of that type? It may be absent on the wire.
static bool has_type(const value_message *value, int choice)
{
  return value != NULL && (int)value->parameter_choice_case == choice;
}

error *grpc_repository_index(call *c, const void *request_pointer, buffer *json)
{
  TRITONSERVER_Message *response;
  const Inference__RepositoryIndexRequest *request = request_pointer;
  RETURN_IF_ERROR(refuse_named(request->repository_name));
  const uint32_t flags = request->ready ? TRITONSERVER_INDEX_FLAG_READY : 0;
  return admin_take_json(TRITONSERVER_ServerModelIndex(c->server->server, flags, &response),
                         &response, json);
}

// ---- load ----

typedef Inference__RepositoryModelLoadRequest load_request;

static error *read_parameter(const char *name, const value_message *value, load_parameter *p)
{
  const bool is_file = load_parameter_is_file(name);
  if (!is_file && !load_parameter_is_config(name))
    return error_new(ERROR_INVALID_ARG, "unrecognized load parameter '%s'.", name);
  if (!has_type(value, is_file ? CHOICE(BYTES) : CHOICE(STRING)))
    return error_new(ERROR_INVALID_ARG,
                     "invalid value type for load parameter '%s', expected %s_param.", name,
                     is_file ? "bytes" : "string");
  *p = (load_parameter){
      name, is_file ? (slice){(const char *)value->bytes_param.data, value->bytes_param.len}
                    : slice_of(value->string_param)};
  return NULL;
}

// May this client bring the parameter? If not, the call has failed.
static error *admit(call *c, const load_request *request, const load_parameter *p)
{
  const char *what;
  char text[CODE_UPLOAD_TEXT_BYTES];
  const char *reason = grpc_access_remote_reason(c);
  if (reason == NULL)
    return NULL;
  RETURN_IF_ERROR(
      code_upload_find(c->server->server, request->model_name, p->name, p->value, text, &what));
  if (what != NULL)
    call_fail(c, GRPC_PERMISSION_DENIED, ACCESS_NO_CODE_FORMAT, what, reason);
  return NULL;
}

// The last of several equal keys counts.
static bool is_replaced(const load_request *request, size_t i)
{
  for (size_t later = i + 1; later < request->n_parameters; later++)
    if (strcmp(request->parameters[later]->key, request->parameters[i]->key) == 0)
      return true;
  return false;
}

error *grpc_repository_model_load(call *c, const void *request_pointer, buffer *json)
{
  const load_request *request = request_pointer;
  size_t count = 0;
  (void)json;
  RETURN_IF_ERROR(refuse_named(request->repository_name));
  load_parameter *parameters =
      arena_allocate_array(&c->arena, request->n_parameters, sizeof(*parameters));
  if (parameters == NULL)
    return error_no_memory();
  for (size_t i = 0; i < request->n_parameters && c->status == GRPC_UNDECIDED; i++) {
    if (is_replaced(request, i))
      continue;
    load_parameter *p = &parameters[count++];
    RETURN_IF_ERROR(read_parameter(request->parameters[i]->key, request->parameters[i]->value, p));
    RETURN_IF_ERROR(admit(c, request, p));
  }
  return c->status != GRPC_UNDECIDED
             ? NULL
             : model_admin_load(c->server->server, request->model_name, parameters, count);
}

// ---- unload ----

typedef Inference__RepositoryModelUnloadRequest unload_request;

// The last entry of this name counts; other names are ignored.
static error *read_dependents(const unload_request *request, bool *dependents)
{
  *dependents = false;
  for (size_t i = request->n_parameters; i-- > 0;) {
    if (strcmp(request->parameters[i]->key, "unload_dependents") != 0)
      continue;
    const value_message *value = request->parameters[i]->value;
    if (!has_type(value, CHOICE(BOOL)))
      return error_new(
          ERROR_INVALID_ARG,
          "invalid value type for 'unload_dependents' parameter, expected bool_param.");
    *dependents = value->bool_param;
    return NULL;
  }
  return NULL;
}

error *grpc_repository_model_unload(call *c, const void *request_pointer, buffer *json)
{
  bool dependents;
  const unload_request *request = request_pointer;
  (void)json;
  RETURN_IF_ERROR(refuse_named(request->repository_name));
  RETURN_IF_ERROR(read_dependents(request, &dependents));
  return model_admin_unload(c->server->server, request->model_name, dependents);
}
