// SPDX-License-Identifier: Apache-2.0
// The repository extension: index, load, unload. They may take long, so a job thread does the work;
// the loop thread starts it and replies.
#include "frontend/http/service/routes.h"

#include "base/base64.h"
#include "frontend/common/admin/model_admin.h"
#include "frontend/common/policy/code_upload.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_log.h"
#include "frontend/http/exchange/exchange_server.h"

#include <jansson.h>
#include <string.h>

// --- The request's JSON

// Reads a member that, if present, must be a boolean.
static bool take_bool(exchange *x, const json_t *object, const char *name, bool *value)
{
  json_t *member = json_object_get(object, name); // NULL object: NULL
  if (member == NULL)
    return true;
  if (!json_is_boolean(member))
    return exchange_fail(
        x, MHD_HTTP_BAD_REQUEST,
        "attempt to access JSON non-boolean as boolean: '%s' must be true or false", name);
  *value = json_is_true(member);
  return true;
}

static bool take_parameters(exchange *x, const json_t *object, json_t **parameters)
{
  *parameters = json_object_get(object, "parameters");
  if (*parameters == NULL || json_is_object(*parameters))
    return true;
  return exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                       "attempt to get members for non-object: 'parameters' must be a JSON object");
}

// --- Index

static void read_index(exchange *x)
{
  json_t *object;
  bool ready_only = false;
  if (!exchange_parse_json(x, &object) || !take_bool(x, object, "ready", &ready_only))
    return;
  TRITONSERVER_Message *message;
  uint32_t flags = ready_only ? TRITONSERVER_INDEX_FLAG_READY : 0;
  exchange_fail_if_error(
      x, admin_take_json(TRITONSERVER_ServerModelIndex(x->http->server, flags, &message), &message,
                         &x->text));
  exchange_reply_json(x);
}

void handle_repository_index(exchange *x)
{
  exchange_run_job(x, JOB_BLOCKS, read_index, NULL);
}

// --- Load

// May this client bring the parameter? False: the exchange has failed.
static bool admit(exchange *x, const char *name, slice value)
{
  const char *what;
  char text[CODE_UPLOAD_TEXT_BYTES];
  if (x->remote_reason != NULL &&
      !exchange_fail_if_error(x, code_upload_find(x->http->server, x->parameters[PARAMETER_MODEL],
                                                  name, value, text, &what)) &&
      what != NULL)
    exchange_fail(x, MHD_HTTP_FORBIDDEN, ACCESS_NO_CODE_FORMAT, what, x->remote_reason);
  return x->failure == NULL;
}

// Decodes a file's content into the arena. False: the exchange has failed. The same for the next.
static bool read_file(exchange *x, load_parameter *p)
{
  const slice text = p->value;
  char *content = arena_allocate(&x->arena, base64_decoded_size(text.size) + 1);
  if (content == NULL)
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
  else if (!base64_decode(text, content, &p->value.size))
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the content of load parameter '%.256s' is not base64",
                  p->name);
  p->value.data = content;
  return x->failure == NULL;
}

static bool read_parameter(exchange *x, const char *name, const json_t *value, load_parameter *p)
{
  *p = (load_parameter){name, {json_string_value(value), json_string_length(value)}};
  if (!json_is_string(value))
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "attempt to access JSON non-string as string: load parameter '%.256s' must be a "
                  "JSON string",
                  name);
  else if (!admit(x, name, p->value))
    return false;
  else if (load_parameter_is_file(name))
    return read_file(x, p);
  else if (!load_parameter_is_config(name))
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "unexpected error on creating Triton parameter: unexpected load parameter "
                  "'%.256s', expected 'config' or 'file:<path>'",
                  name);
  return x->failure == NULL;
}

static void load_with(exchange *x, json_t *parameters)
{
  const char *name;
  json_t *value;
  size_t count = 0;
  load_parameter *items =
      arena_allocate_array(&x->arena, json_object_size(parameters) + 1, sizeof(*items));
  if (items == NULL)
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
  json_object_foreach(parameters, name, value)
  {
    if (x->failure != NULL || !read_parameter(x, name, value, &items[count++]))
      return;
  }
  if (x->failure == NULL)
    exchange_fail_if_error(
        x, model_admin_load(x->http->server, x->parameters[PARAMETER_MODEL], items, count));
}

// Warns of members such as "parameter" or "config", which a load ignores; Triton says nothing.
static void tell_unread(const json_t *object)
{
  ignored_settings ignored = {0};
  const char *name;
  json_t *value;
  json_object_foreach((json_t *)object, name, value) if (strcmp(name, "parameters") != 0)
      ignored_settings_add(&ignored, name);
  ignored_settings_warn(&ignored, "a load (which reads 'parameters')");
}

static void load(exchange *x)
{
  json_t *object;
  json_t *parameters;
  if (!exchange_parse_json(x, &object))
    return;
  tell_unread(object);
  if (take_parameters(x, object, &parameters))
    load_with(x, parameters);
}

void handle_model_load(exchange *x)
{
  exchange_run_job(x, JOB_BLOCKS, load, exchange_reply_ok);
}

// --- Unload

// As in Triton, an unreadable body does not prevent the unload; it could only ask for dependents.
static bool wants_dependents(exchange *x)
{
  json_t *object;
  AUTO_ERROR error *e = exchange_read_json(x, &object);
  if (e != NULL)
    exchange_log_warning(x, "the body of an unload is passed over: %s", error_message(e));
  const json_t *parameters = json_object_get(object, "parameters");
  return json_is_true(json_object_get(parameters, "unload_dependents"));
}

static void unload(exchange *x)
{
  exchange_fail_if_error(
      x, model_admin_unload(x->http->server, x->parameters[PARAMETER_MODEL], wants_dependents(x)));
}

void handle_model_unload(exchange *x)
{
  exchange_run_job(x, JOB_BLOCKS, unload, exchange_reply_ok);
}

void handle_named_repository(exchange *x)
{
  exchange_fail(x, MHD_HTTP_NOT_IMPLEMENTED, "'repository_name' specification is not supported");
}
