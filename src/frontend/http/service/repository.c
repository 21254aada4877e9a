// The repository extension: index, load, unload. All of it may take long, so the work is done on a
// job thread; only its start and its reply are made on the loop thread.
#include "frontend/http/service/routes.h"

#include "base/base64.h"
#include "base/text.h"
#include "frontend/common/policy/code_upload.h"
#include "frontend/http/exchange/access.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/json_body.h"
#include "frontend/http/exchange/server.h"

#include <jansson.h>
#include <string.h>

// --- The request's JSON

// Reads a member that must be a boolean when it is there.
static bool take_bool(exchange *x, const json_t *object, const char *name, bool *value)
{
  json_t *member = json_object_get(object, name); // NULL object: NULL
  if (member == NULL)
    return true;
  if (!json_is_boolean(member)) {
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "attempt to access JSON non-boolean as boolean: '%s' must be true or false",
                  name);
    return false;
  }
  *value = json_is_true(member);
  return true;
}

static bool take_parameters(exchange *x, const json_t *object, json_t **parameters)
{
  *parameters = json_object_get(object, "parameters");
  if (*parameters == NULL || json_is_object(*parameters))
    return true;
  exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                "attempt to get members for non-object: 'parameters' must be a JSON object");
  return false;
}

static void reply_empty(exchange *x)
{
  if (x->failure == NULL)
    exchange_reply_empty(x, MHD_HTTP_OK);
}

// --- Index

static void read_index(exchange *x)
{
  json_t *object;
  bool ready_only = false;
  if (!json_body_parse(x, &object))
    return;
  bool valid = take_bool(x, object, "ready", &ready_only);
  json_decref(object);
  if (!valid)
    return;
  TRITONSERVER_Message *message = NULL;
  uint32_t flags = ready_only ? TRITONSERVER_INDEX_FLAG_READY : 0;
  if (!exchange_fail_if(x, TRITONSERVER_ServerModelIndex(x->http->server, flags, &message)))
    exchange_reply_message(x, message);
}

// The job made the reply already.
static void reply_made(exchange *x)
{
  (void)x;
}

void handle_repository_index(exchange *x)
{
  exchange_run_job(x, JOB_BLOCKS, read_index, reply_made);
}

// --- Load

// May this client bring the parameter? When not, the exchange has failed.
static bool admit(exchange *x, const char *name, slice value)
{
  const char *what;
  char text[CODE_UPLOAD_TEXT_BYTES];
  if (x->remote_reason == NULL)
    return true;
  return !exchange_fail_if_error(x,
                                 code_upload_find(x->http->server, x->parameters[PARAMETER_MODEL],
                                                  name, value, text, &what)) &&
         (what == NULL || access_admit_upload(x, what));
}

// The content of a file, in the arena.
static TRITONSERVER_Parameter *make_file(exchange *x, const char *name, slice text)
{
  size_t size;
  char *content = arena_allocate(&x->arena, base64_decoded_size(text.size) + 1);
  if (content != NULL && base64_decode(text, content, &size))
    return TRITONSERVER_ParameterBytesNew(name, content, size);
  if (content != NULL)
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the content of load parameter '%.256s' is not base64",
                  name);
  return NULL;
}

// NULL: the exchange has failed.
static TRITONSERVER_Parameter *make_parameter(exchange *x, const char *name, const json_t *value)
{
  slice text = {json_string_value(value), json_string_length(value)};
  TRITONSERVER_Parameter *parameter = NULL;
  if (!json_is_string(value))
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "attempt to access JSON non-string as string: load parameter '%.256s' must be a "
                  "JSON string",
                  name);
  else if (!admit(x, name, text))
    return NULL;
  else if (strcmp(name, "config") == 0)
    parameter = TRITONSERVER_ParameterNew(name, TRITONSERVER_PARAMETER_STRING, text.data);
  else if (text_starts_with(name, "file:"))
    parameter = make_file(x, name, text);
  else
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "unexpected error on creating Triton parameter: unexpected load parameter "
                  "'%.256s', expected 'config' or 'file:<path>'",
                  name);
  if (parameter == NULL)
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory"); // unless it has failed already
  return parameter;
}

static void load_with(exchange *x, json_t *parameters)
{
  const char *name;
  json_t *value;
  size_t count = 0;
  const TRITONSERVER_Parameter **items =
      arena_allocate_array(&x->arena, json_object_size(parameters) + 1, sizeof(*items));
  if (items == NULL)
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
  json_object_foreach(parameters, name, value)
  {
    if (x->failure == NULL && (items[count] = make_parameter(x, name, value)) != NULL)
      count++;
  }
  if (x->failure == NULL)
    exchange_fail_if(x, TRITONSERVER_ServerLoadModelWithParameters(
                            x->http->server, x->parameters[PARAMETER_MODEL], items, count));
  for (size_t i = 0; i < count; i++)
    TRITONSERVER_ParameterDelete((TRITONSERVER_Parameter *)items[i]);
}

static void load(exchange *x)
{
  json_t *object;
  json_t *parameters;
  if (!json_body_parse(x, &object))
    return;
  if (take_parameters(x, object, &parameters))
    load_with(x, parameters);
  json_decref(object);
}

void handle_model_load(exchange *x)
{
  exchange_run_job(x, JOB_BLOCKS, load, reply_empty);
}

// --- Unload

// A body that cannot be read does not keep a model loaded, as in Triton: whether others are to go
// with it is all that it can say.
static bool wants_dependents(exchange *x)
{
  json_t *object;
  error *e = json_body_read(x, &object);
  if (e != NULL)
    exchange_log_warning(x, "the body of an unload is passed over: %s", error_message(e));
  error_free(e);
  const json_t *parameters = json_object_get(object, "parameters");
  bool wants = json_is_true(json_object_get(parameters, "unload_dependents"));
  json_decref(object);
  return wants;
}

static void unload(exchange *x)
{
  bool dependents = wants_dependents(x);
  const char *model = x->parameters[PARAMETER_MODEL];
  exchange_fail_if(x, dependents
                          ? TRITONSERVER_ServerUnloadModelAndDependents(x->http->server, model)
                          : TRITONSERVER_ServerUnloadModel(x->http->server, model));
}

void handle_model_unload(exchange *x)
{
  exchange_run_job(x, JOB_BLOCKS, unload, reply_empty);
}

void handle_named_repository(exchange *x)
{
  exchange_fail(x, MHD_HTTP_NOT_IMPLEMENTED, "'repository_name' specification is not supported");
}
