// The trace extension: /v2/trace/setting and /v2/models/{model}/trace/setting. The server's
// settings are answered on the loop thread; a model's after its backend was asked whether it is
// ready, on a thread that may wait for that.
#include "frontend/trace/trace.h"

#include "frontend/common/observe/ignored_settings.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/json_body.h"
#include "frontend/http/exchange/server.h"
#include "frontend/http/service/routes.h"

// --- What the client wants

// The texts of a member: a list for levels, a text for the others. False: the exchange has failed.
static bool read_texts(exchange *x, trace_key key, const json_t *member, slice *values,
                       size_t *count)
{
  bool list = key == TRACE_KEY_LEVEL;
  if (list && !json_is_array(member)) {
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "attempt to access JSON non-array as array");
    return false;
  }
  *count = list ? json_array_size(member) : 1;
  if (*count > TRACE_VALUES_MAX) {
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "'%s' has more than %d values", trace_key_name(key),
                  TRACE_VALUES_MAX);
    return false;
  }
  for (size_t i = 0; i < *count; i++) {
    const json_t *item = list ? json_array_get(member, i) : member;
    if (!json_is_string(item)) {
      exchange_fail(x, MHD_HTTP_BAD_REQUEST, "attempt to access JSON non-string as string");
      return false;
    }
    values[i] = (slice){json_string_value(item), json_string_length(item)};
  }
  return true;
}

static bool read_member(exchange *x, const json_t *object, trace_key key, trace_update *u)
{
  slice values[TRACE_VALUES_MAX];
  size_t count = 0;
  const json_t *member = json_object_get(object, trace_key_name(key));
  if (member == NULL)
    return true;
  if (!json_is_null(member)) {
    if (!read_texts(x, key, member, values, &count))
      return false;
    if (count == 0) // an empty list of levels changes nothing
      return true;
  }
  return !exchange_fail_if_error(x, trace_update_read(u, key, values, count));
}

static void warn_of_unknown(json_t *object)
{
  ignored_settings ignored = {0};
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value) if (!trace_key_is_known(name))
      ignored_settings_add(&ignored, name);
  ignored_settings_warn(&ignored, "trace");
}

static bool read_update(exchange *x, json_t *object, trace_update *u)
{
  bool valid = true;
  if (json_object_get(object, "trace_file") != NULL)
    return !exchange_fail_if_error(x, trace_file_refused());
  for (size_t key = 0; valid && key < TRACE_KEY_COUNT_OF_KEYS; key++)
    valid = read_member(x, object, (trace_key)key, u);
  if (valid)
    warn_of_unknown(object);
  return valid;
}

static bool update(exchange *x)
{
  json_t *object;
  trace_update u = {0};
  if (!json_body_parse(x, &object))
    return false;
  bool valid = read_update(x, object, &u);
  json_decref(object);
  return valid &&
         !exchange_fail_if_error(
             x, trace_service_update(x->http->options.trace, x->parameters[PARAMETER_MODEL], &u));
}

// --- What is in force

static void reply(exchange *x)
{
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  if (x->method == METHOD_POST && !update(x))
    return;
  trace_service_print(x->http->options.trace, x->parameters[PARAMETER_MODEL], false, &json);
  exchange_reply_json(x, &json);
}

static void reply_for_model(exchange *x)
{
  bool ready = false;
  const char *model = x->parameters[PARAMETER_MODEL];
  if (exchange_fail_if(x, TRITONSERVER_ServerModelIsReady(x->http->server, model, -1, &ready)))
    return;
  if (ready)
    reply(x);
  else
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "Request for unknown model : %s", model);
}

void handle_trace_setting(exchange *x)
{
  if (x->parameters[PARAMETER_MODEL][0] == '\0')
    reply(x);
  else
    exchange_run_job(x, JOB_PROBES, reply_for_model, NULL);
}
