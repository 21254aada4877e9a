// SPDX-License-Identifier: Apache-2.0
// The trace extension: /v2/trace/setting and /v2/models/{model}/trace/setting. The loop thread
// answers for the server's settings. A model is first asked whether it is ready, in a job.
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/service/routes.h"
#include "frontend/trace/trace.h"

#include <string.h>

// --- The request

// The texts of a member: a list for levels, else one text. False: the exchange has failed.
static bool read_texts(exchange *x, const json_t *value, trace_member *m)
{
  bool list = strcmp(m->name, trace_key_name(TRACE_KEY_LEVEL)) == 0;
  if (list && !json_is_array(value))
    return exchange_fail(x, MHD_HTTP_BAD_REQUEST, "attempt to access JSON non-array as array");
  m->count = list ? json_array_size(value) : 1;
  slice *texts = arena_allocate_array(&x->arena, m->count, sizeof(*texts));
  m->values = texts;
  for (size_t i = 0; texts != NULL && i < m->count; i++) {
    const json_t *item = list ? json_array_get(value, i) : value;
    if (!json_is_string(item))
      return exchange_fail(x, MHD_HTTP_BAD_REQUEST, "attempt to access JSON non-string as string");
    texts[i] = (slice){json_string_value(item), json_string_length(item)};
  }
  return texts != NULL || !exchange_fail_if_error(x, error_no_memory());
}

static bool update(exchange *x)
{
  json_t *object;
  const char *name;
  json_t *value;
  size_t count = 0;
  if (!exchange_parse_json(x, &object))
    return false;
  trace_member *members =
      arena_allocate_array(&x->arena, json_object_size(object) + 1, sizeof(*members));
  if (members == NULL)
    return !exchange_fail_if_error(x, error_no_memory());
  json_object_foreach(object, name, value)
  {
    trace_member *m = &members[count++];
    *m = (trace_member){.name = name};
    if (!trace_key_is_known(name) || json_is_null(value))
      continue;
    if (!read_texts(x, value, m))
      return false;
    if (m->count == 0) // an empty list of levels changes nothing
      count--;
  }
  return !exchange_fail_if_error(
      x,
      trace_service_change(x->http->options.trace, x->parameters[PARAMETER_MODEL], members, count));
}

// --- The reply

static void reply(exchange *x)
{
  if (x->method == METHOD_POST && !update(x))
    return;
  trace_service_print(x->http->options.trace, x->parameters[PARAMETER_MODEL], false, &x->text);
  exchange_reply_json(x);
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
