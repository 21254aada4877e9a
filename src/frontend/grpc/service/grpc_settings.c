// SPDX-License-Identifier: Apache-2.0
// Settings of traces and the log, for which frontend/trace and frontend/common have the rules.
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/log_settings.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/service/handlers.h"
#include "frontend/trace/trace.h"

// ---- traces ----

typedef Inference__TraceSettingRequest trace_request;

static error *update_traces(const call *c, const trace_request *request, arena *a)
{
  if (request->n_settings == 0)
    return NULL;
  trace_member *members = arena_allocate_array(a, request->n_settings, sizeof(*members));
  if (members == NULL)
    return error_no_memory();
  for (size_t i = 0; i < request->n_settings; i++) {
    const Inference__TraceSettingRequest__SettingValue *value = request->settings[i]->value;
    const size_t count = value == NULL ? 0 : value->n_value;
    slice *values = arena_allocate_array(a, count, sizeof(*values));
    if (values == NULL)
      return error_no_memory();
    for (size_t k = 0; k < count; k++)
      values[k] = slice_of(value->value[k]);
    members[i] = (trace_member){request->settings[i]->key, values, count};
  }
  return trace_service_change(c->server->options.trace, request->model_name, members,
                              request->n_settings);
}

// Triton drops this error and replies OK without settings.
static error *check_model(const call *c, const char *model)
{
  bool ready = model[0] == '\0';
  if (!ready)
    RETURN_IF_ERROR(
        error_from_abi(TRITONSERVER_ServerModelIsReady(c->server->server, model, -1, &ready)));
  return ready ? NULL : error_new(ERROR_NOT_FOUND, "Request for unknown model : %s", model);
}

error *grpc_trace_setting(call *c, const void *request_pointer, buffer *json)
{
  const trace_request *request = request_pointer;
  RETURN_IF_ERROR(check_model(c, request->model_name));
  RETURN_IF_ERROR(update_traces(c, request, &c->arena));
  trace_service_print(c->server->options.trace, request->model_name, true, json);
  return NULL;
}

// ---- the log ----

typedef Inference__LogSettingsRequest log_request;
typedef Inference__LogSettingsRequest__SettingValue log_value;

#define CHOICE(type) INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_##type##_PARAM

static log_setting log_setting_of(const char *name, const log_value *value)
{
  switch (value == NULL ? 0 : (int)value->parameter_choice_case) {
  case CHOICE(BOOL):
    return (log_setting){name, LOG_SETTING_BOOL, {.boolean = value->bool_param}};
  case CHOICE(UINT32):
    return (log_setting){name, LOG_SETTING_INTEGER, {.integer = value->uint32_param}};
  case CHOICE(STRING):
    return (log_setting){name, LOG_SETTING_TEXT, {.text = value->string_param}};
  default:
    return (log_setting){.name = name, .kind = LOG_SETTING_OTHER};
  }
}

static error *change_log(const log_request *request, arena *a)
{
  log_setting *settings = arena_allocate_array(a, request->n_settings, sizeof(*settings));
  if (settings == NULL)
    return error_no_memory();
  error *faults = NULL;
  for (size_t i = 0; i < request->n_settings; i++) { // backwards: the last of a name must be found
                                                     // first
    const size_t from = request->n_settings - 1 - i;
    settings[i] = log_setting_of(request->settings[from]->key, request->settings[from]->value);
    faults =
        log_settings_join(log_settings_check_grpc(&settings[i]), faults); // in the request's order
  }
  return faults != NULL ? faults : log_settings_change(settings, request->n_settings);
}

error *grpc_log_settings(call *c, const void *request, buffer *json)
{
  RETURN_IF_ERROR(change_log(request, &c->arena));
  log_settings_print(json, true);
  return NULL;
}
