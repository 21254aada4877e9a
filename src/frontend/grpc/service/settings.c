// Settings of traces and of the log: what is set is checked and kept by frontend/trace and
// frontend/common, for all front ends.
#include "base/arena.h"
#include "frontend/common/observe/ignored_settings.h"
#include "frontend/common/observe/log_settings.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/service/control_message.h"
#include "frontend/grpc/service/handlers.h"
#include "frontend/trace/trace.h"

#include <string.h>

// ---- traces: the request ----

typedef Inference__TraceSettingRequest trace_request;
typedef Inference__TraceSettingRequest__SettingsEntry trace_request_entry;

// The last entry of that key counts; NULL when there is none.
static const trace_request_entry *find_setting(const trace_request *request, const char *name)
{
  for (size_t i = request->n_settings; i > 0; i--)
    if (strcmp(request->settings[i - 1]->key, name) == 0)
      return request->settings[i - 1];
  return NULL;
}

static error *read_setting(const trace_request *request, trace_key key, trace_update *update)
{
  slice values[TRACE_VALUES_MAX];
  const trace_request_entry *entry = find_setting(request, trace_key_name(key));
  if (entry == NULL)
    return NULL;
  size_t count = entry->value == NULL ? 0 : entry->value->n_value;
  if (count > TRACE_VALUES_MAX)
    return error_new(ERROR_INVALID_ARG, "'%s' has more than %d values", entry->key,
                     TRACE_VALUES_MAX);
  for (size_t i = 0; i < count; i++)
    values[i] = slice_of(entry->value->value[i]);
  return trace_update_read(update, key, values, count);
}

static void warn_of_unknown(const trace_request *request)
{
  ignored_settings ignored = {0};
  for (size_t i = 0; i < request->n_settings; i++)
    if (!trace_key_is_known(request->settings[i]->key))
      ignored_settings_add(&ignored, request->settings[i]->key);
  ignored_settings_warn(&ignored, "trace");
}

static error *update_traces(trace_service *traces, const trace_request *request)
{
  trace_update update = {0};
  if (request->n_settings == 0)
    return NULL;
  if (find_setting(request, "trace_file") != NULL)
    return trace_file_refused();
  for (size_t key = 0; key < TRACE_KEY_COUNT_OF_KEYS; key++)
    RETURN_IF_ERROR(read_setting(request, (trace_key)key, &update));
  warn_of_unknown(request);
  return trace_service_update(traces, request->model_name, &update);
}

// ---- traces: the reply ----

static void reply_traces(call *c, const char *model)
{
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  trace_service_print(c->server->options.trace, model, true, &json);
  control_reply_text(c, &json, &inference__trace_setting_response__descriptor, "settings");
}

// Unlike Triton, which drops the error and answers OK with nothing.
static bool is_known_model(call *c, const char *model)
{
  bool ready = false;
  if (model[0] == '\0')
    return true;
  if (call_fail_if(c, TRITONSERVER_ServerModelIsReady(c->server->server, model, -1, &ready)))
    return false;
  if (!ready)
    call_fail(c, GRPC_NOT_FOUND, "Request for unknown model : %s", model);
  return ready;
}

static void trace_setting(call *c)
{
  const trace_request *request = control_request(c, &inference__trace_setting_request__descriptor);
  if (request != NULL && is_known_model(c, request->model_name) &&
      !call_fail_if_error(c, update_traces(c->server->options.trace, request)))
    reply_traces(c, request->model_name);
}

// A model's backend is asked whether it is ready, which may take long.
void grpc_handle_trace_setting(call *c)
{
  call_run_job(c, JOB_PROBES, trace_setting, NULL);
}

// ---- the log: the request ----

typedef Inference__LogSettingsRequest log_request;
typedef Inference__LogSettingsRequest__SettingValue log_value;

static log_setting log_setting_of(const char *name, const log_value *value)
{
  log_setting setting = {.name = name, .kind = LOG_SETTING_OTHER};
  switch (value == NULL ? 0 : (int)value->parameter_choice_case) {
  case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM:
    setting.kind = LOG_SETTING_BOOL;
    setting.value.boolean = value->bool_param;
    break;
  case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM:
    setting.kind = LOG_SETTING_INTEGER;
    setting.value.integer = value->uint32_param;
    break;
  case INFERENCE__LOG_SETTINGS_REQUEST__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM:
    setting.kind = LOG_SETTING_TEXT;
    setting.value.text = value->string_param;
    break;
  default:
    break;
  }
  return setting;
}

static error *change_log(const log_request *request, arena *a)
{
  log_setting *settings = arena_allocate_array(a, request->n_settings, sizeof(*settings));
  if (settings == NULL)
    return error_no_memory();
  error *faults = NULL;
  for (size_t i = 0; i < request->n_settings; i++) { // the last of a name is found first
    const size_t from = request->n_settings - 1 - i;
    settings[i] = log_setting_of(request->settings[from]->key, request->settings[from]->value);
    faults = log_settings_join(log_settings_check_grpc(&settings[i]), faults); // in their order
  }
  return faults != NULL ? faults : log_settings_change(settings, request->n_settings);
}

// ---- the log: the reply ----

static void reply_log(call *c)
{
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  log_settings_print(&json, true);
  control_reply_text(c, &json, &inference__log_settings_response__descriptor, "settings");
}

void grpc_handle_log_settings(call *c)
{
  const log_request *request = control_request(c, &inference__log_settings_request__descriptor);
  if (request != NULL && !call_fail_if_error(c, change_log(request, &c->arena)))
    reply_log(c);
}
