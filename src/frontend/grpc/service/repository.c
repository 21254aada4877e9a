// The repository extension: index, load, unload. All of it may take long, so it is done in jobs.
#include "base/text.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/policy/code_upload.h"
#include "frontend/grpc/call/access.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/service/control_message.h"
#include "frontend/grpc/service/handlers.h"

#include <string.h>

typedef Inference__ModelRepositoryParameter value_message;

static bool is_named(call *c, const char *repository_name)
{
  if (repository_name[0] == '\0')
    return false;
  call_fail(c, GRPC_UNIMPLEMENTED, "'repository_name' specification is not supported");
  return true;
}

// A value may be missing on the wire: then it has no type.
static int type_of(const value_message *value)
{
  return value == NULL ? INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE__NOT_SET
                       : (int)value->parameter_choice_case;
}

// ---- index ----

static void read_index(call *c)
{
  TRITONSERVER_Message *response;
  const Inference__RepositoryIndexRequest *request =
      control_request(c, &inference__repository_index_request__descriptor);
  if (request == NULL || is_named(c, request->repository_name))
    return;
  uint32_t flags = request->ready ? TRITONSERVER_INDEX_FLAG_READY : 0;
  if (!call_fail_if(c, TRITONSERVER_ServerModelIndex(c->server->server, flags, &response)))
    control_reply_json(c, response, &inference__repository_index_response__descriptor, "models");
}

void grpc_handle_repository_index(call *c)
{
  call_run_job(c, JOB_BLOCKS, read_index, NULL);
}

// ---- load ----

typedef Inference__RepositoryModelLoadRequest load_request;

// May this client bring the parameter? When not, the call has failed.
static bool admit(call *c, const load_request *request, const char *name, slice value)
{
  const char *what;
  char text[CODE_UPLOAD_TEXT_BYTES];
  if (!grpc_access_is_code_refused(c))
    return true;
  return !call_fail_if_error(c, code_upload_find(c->server->server, request->model_name, name,
                                                 value, text, &what)) &&
         (what == NULL || grpc_access_admit_code(c, what));
}

static TRITONSERVER_Parameter *make_config(call *c, const load_request *request,
                                           const value_message *value)
{
  if (type_of(value) != INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_STRING_PARAM) {
    call_fail(c, GRPC_INVALID_ARGUMENT,
              "invalid value type for load parameter 'config', expected string_param.");
    return NULL;
  }
  if (!admit(c, request, "config", slice_of(value->string_param)))
    return NULL;
  return TRITONSERVER_ParameterNew("config", TRITONSERVER_PARAMETER_STRING, value->string_param);
}

static TRITONSERVER_Parameter *make_file(call *c, const load_request *request, const char *name,
                                         const value_message *value)
{
  if (type_of(value) != INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BYTES_PARAM) {
    call_fail(c, GRPC_INVALID_ARGUMENT,
              "invalid value type for load parameter '%s', expected bytes_param.", name);
    return NULL;
  }
  if (!admit(c, request, name, (slice){0}))
    return NULL;
  return TRITONSERVER_ParameterBytesNew(name, value->bytes_param.data, value->bytes_param.len);
}

// NULL when the call has failed.
static TRITONSERVER_Parameter *make_parameter(call *c, const load_request *request,
                                              const char *name, const value_message *value)
{
  TRITONSERVER_Parameter *parameter = NULL;
  if (strcmp(name, "config") == 0)
    parameter = make_config(c, request, value);
  else if (text_starts_with(name, "file:"))
    parameter = make_file(c, request, name, value);
  else
    call_fail(c, GRPC_INVALID_ARGUMENT, "unrecognized load parameter '%s'.", name);
  if (parameter == NULL)
    call_fail(c, GRPC_UNAVAILABLE, "out of memory"); // unless it has failed already
  return parameter;
}

// A key of a map that comes again replaces what was there.
static bool is_replaced(const load_request *request, size_t i)
{
  for (size_t later = i + 1; later < request->n_parameters; later++)
    if (strcmp(request->parameters[later]->key, request->parameters[i]->key) == 0)
      return true;
  return false;
}

static bool make_parameters(call *c, const load_request *request,
                            const TRITONSERVER_Parameter **parameters, size_t *count)
{
  for (size_t i = 0; i < request->n_parameters; i++) {
    const Inference__RepositoryModelLoadRequest__ParametersEntry *entry = request->parameters[i];
    if (is_replaced(request, i))
      continue;
    parameters[*count] = make_parameter(c, request, entry->key, entry->value);
    if (parameters[*count] == NULL)
      return false;
    (*count)++;
  }
  return true;
}

static void load_with(call *c, const load_request *request,
                      const TRITONSERVER_Parameter **parameters)
{
  size_t count = 0;
  if (make_parameters(c, request, parameters, &count))
    control_reply_empty(c, error_from_abi(TRITONSERVER_ServerLoadModelWithParameters(
                               c->server->server, request->model_name, parameters, count)));
  for (size_t i = 0; i < count; i++)
    TRITONSERVER_ParameterDelete((TRITONSERVER_Parameter *)parameters[i]);
}

static void load(call *c)
{
  const load_request *request =
      control_request(c, &inference__repository_model_load_request__descriptor);
  if (request == NULL || is_named(c, request->repository_name))
    return;
  const TRITONSERVER_Parameter **parameters = arena_allocate_array(
      &c->arena, request->n_parameters, sizeof(const TRITONSERVER_Parameter *));
  if (parameters == NULL)
    call_fail(c, GRPC_UNAVAILABLE, "out of memory");
  else
    load_with(c, request, parameters);
}

void grpc_handle_model_load(call *c)
{
  call_run_job(c, JOB_BLOCKS, load, NULL);
}

// ---- unload ----

typedef Inference__RepositoryModelUnloadRequest unload_request;

// False when the call has failed. The last entry counts; others mean nothing.
static bool read_dependents(call *c, const unload_request *request, bool *dependents)
{
  const int boolean = INFERENCE__MODEL_REPOSITORY_PARAMETER__PARAMETER_CHOICE_BOOL_PARAM;
  for (size_t i = request->n_parameters; i > 0; i--) {
    const Inference__RepositoryModelUnloadRequest__ParametersEntry *entry =
        request->parameters[i - 1];
    if (strcmp(entry->key, "unload_dependents") != 0)
      continue;
    if (type_of(entry->value) == boolean) {
      *dependents = entry->value->bool_param;
      return true;
    }
    call_fail(c, GRPC_INVALID_ARGUMENT,
              "invalid value type for 'unload_dependents' parameter, expected bool_param.");
    return false;
  }
  return true;
}

static void unload(call *c)
{
  bool dependents = false;
  const unload_request *request =
      control_request(c, &inference__repository_model_unload_request__descriptor);
  if (request == NULL || is_named(c, request->repository_name) ||
      !read_dependents(c, request, &dependents))
    return;
  control_reply_empty(c, error_from_abi(dependents ? TRITONSERVER_ServerUnloadModelAndDependents(
                                                         c->server->server, request->model_name)
                                                   : TRITONSERVER_ServerUnloadModel(
                                                         c->server->server, request->model_name)));
}

void grpc_handle_model_unload(call *c)
{
  call_run_job(c, JOB_BLOCKS, unload, NULL);
}
