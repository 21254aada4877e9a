// Settings of traces and of the log: what is set is checked and kept by frontend/trace and
// frontend/common, for all front ends.
#include "base/arena.h"
#include "frontend/common/admin/trace_admin.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/log_settings.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/service/handlers.h"
#include "frontend/grpc/transport/server.h"

#include <inttypes.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

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
  return trace_admin_change(c->server->options.trace, request->model_name, members,
                            request->n_settings);
}

static void append_setting(void *json_pointer, const char *key, const char *const *values,
                           size_t count)
{
  buffer *json = json_pointer;
  if (!json->failed && json->data[json->size - 1] == '}')
    buffer_append_char(json, ',');
  buffer_append_json_string(json, slice_of(key));
  buffer_append_text(json, ":{\"value\":[");
  for (size_t i = 0; i < count; i++) {
    if (i > 0)
      buffer_append_char(json, ',');
    buffer_append_json_string(json, slice_of(values[i]));
  }
  buffer_append_text(json, "]}");
}

// Unlike Triton, which drops the error and answers OK with nothing.
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
  buffer_append_char(json, '{');
  trace_service_visit(c->server->options.trace, request->model_name, append_setting, json);
  buffer_append_char(json, '}');
  return NULL;
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

// In the words and with the codes that Triton has here, which are not those of its HTTP.
static error *check_log_setting(const log_setting *s)
{
  static const struct {
    const char *name;
    log_setting_kind kind;
    const char *word;
  } rows[] = {{"log_info", LOG_SETTING_BOOL, "boolean"},
              {"log_warning", LOG_SETTING_BOOL, "boolean"},
              {"log_error", LOG_SETTING_BOOL, "boolean"},
              {"log_verbose_level", LOG_SETTING_INTEGER, "int32"},
              {"log_format", LOG_SETTING_TEXT, "string"}};
  int format;
  for (size_t i = 0; i < COUNT(rows); i++)
    if (strcmp(rows[i].name, s->name) == 0 && rows[i].kind != s->kind)
      return error_new(ERROR_INVALID_ARG, "expect %s for '%s'", rows[i].word, s->name);
  if (strcmp(s->name, "log_format") == 0 && !log_settings_format_of(s->value.text, &format))
    return error_new(ERROR_INVALID_ARG, "invalid argument for log_format, got: %.256s",
                     s->value.text);
  return log_settings_check(s, 1);
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
    faults = log_settings_join(check_log_setting(&settings[i]), faults); // in their order
  }
  return faults != NULL ? faults : log_settings_change(settings, request->n_settings);
}

// ---- the log: the reply ----

static const char *word(bool value)
{
  return value ? "true" : "false";
}

error *grpc_log_settings(call *c, const void *request, buffer *json)
{
  NEREID_LogSettings now;
  RETURN_IF_ERROR(change_log(request, &c->arena));
  NEREID_LogGetSettings(&now);
  buffer_append_text(json, "{\"log_file\":{\"string_param\":");
  buffer_append_json_string(json, slice_of(now.file));
  buffer_append_format(json,
                       "},\"log_info\":{\"bool_param\":%s},\"log_warning\":{\"bool_param\":%s},"
                       "\"log_error\":{\"bool_param\":%s},"
                       "\"log_verbose_level\":{\"uint32_param\":%" PRIu32 "},"
                       "\"log_format\":{\"string_param\":\"%s\"}}",
                       word(now.info), word(now.warning), word(now.error), now.verbose_level,
                       log_settings_format_name(now.format));
  return NULL;
}
