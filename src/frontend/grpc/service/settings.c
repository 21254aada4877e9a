// Settings of traces and of the log: what is set is checked and kept by frontend/trace and
// frontend/common, for all front ends.
#include "base/arena.h"
#include "frontend/common/observe/ignored_settings.h"
#include "frontend/common/observe/log_settings.h"
#include "frontend/grpc/call/call.h"
#include "frontend/grpc/call/handlers.h"
#include "frontend/grpc/call/server.h"
#include "frontend/grpc/codec/control_message.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/trace/trace.h"

#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

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

typedef Inference__TraceSettingResponse__SettingsEntry trace_entry;
typedef Inference__TraceSettingResponse__SettingValue trace_value;

// What the reply's map is made of, in the call's arena.
typedef struct trace_list {
  arena *arena;
  trace_entry **entries;
  size_t count;
  bool failed; // memory was short
} trace_list;

typedef struct trace_row {
  trace_entry entry;
  trace_value value;
} trace_row;

static char **copy_texts(arena *a, const char *const *texts, size_t count)
{
  char **copies = arena_allocate_array(a, count, sizeof(char *));
  for (size_t i = 0; copies != NULL && i < count; i++) {
    copies[i] = arena_copy_text(a, slice_of(texts[i]));
    if (copies[i] == NULL)
      return NULL;
  }
  return copies;
}

static void add_setting(void *list_pointer, const char *key, const char *const *values,
                        size_t count)
{
  trace_list *list = list_pointer;
  if (list->failed)
    return;
  list->entries = arena_grow_array(list->arena, list->entries, list->count, sizeof(*list->entries));
  trace_row *row = arena_allocate_array(list->arena, 1, sizeof(*row));
  char **texts = copy_texts(list->arena, values, count);
  char *name = arena_copy_text(list->arena, slice_of(key));
  list->failed = list->entries == NULL || row == NULL || texts == NULL || name == NULL;
  if (list->failed)
    return;
  inference__trace_setting_response__settings_entry__init(&row->entry);
  inference__trace_setting_response__setting_value__init(&row->value);
  row->value.value = texts;
  row->value.n_value = count;
  row->entry.key = name;
  row->entry.value = &row->value;
  list->entries[list->count++] = &row->entry;
}

static void reply_traces(call *c, const char *model)
{
  trace_list list = {.arena = &c->arena};
  Inference__TraceSettingResponse reply = INFERENCE__TRACE_SETTING_RESPONSE__INIT;
  trace_service_visit(c->server->options.trace, model, add_setting, &list);
  if (list.failed) {
    call_fail_if_error(c, error_no_memory());
    return;
  }
  reply.settings = list.entries;
  reply.n_settings = list.count;
  call_reply_message(c, &reply.base);
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
  call_run_job(c, c->server->probes, trace_setting, NULL);
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

typedef Inference__LogSettingsResponse__SettingsEntry log_entry;
typedef Inference__LogSettingsResponse__SettingValue log_reply_value;

enum {
  LOG_FILE,
  LOG_INFO,
  LOG_WARNING,
  LOG_ERROR,
  LOG_VERBOSE_LEVEL,
  LOG_FORMAT,
  LOG_SETTINGS,
};

static void set_bool(log_reply_value *value, bool boolean)
{
  value->parameter_choice_case =
      INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_BOOL_PARAM;
  value->bool_param = boolean;
}

// `text` is borrowed until the reply is packed.
static void set_text(log_reply_value *value, const char *text)
{
  value->parameter_choice_case =
      INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_STRING_PARAM;
  value->string_param = (char *)text;
}

static void reply_log(call *c)
{
  static const char *const names[LOG_SETTINGS] = {"log_file",  "log_info",          "log_warning",
                                                  "log_error", "log_verbose_level", "log_format"};
  NEREID_LogSettings now;
  log_reply_value values[LOG_SETTINGS];
  log_entry rows[LOG_SETTINGS], *list[LOG_SETTINGS];
  for (size_t i = 0; i < LOG_SETTINGS; i++) {
    inference__log_settings_response__setting_value__init(&values[i]);
    inference__log_settings_response__settings_entry__init(&rows[i]);
    rows[i].key = (char *)names[i];
    rows[i].value = &values[i];
    list[i] = &rows[i];
  }
  NEREID_LogGetSettings(&now);
  set_text(&values[LOG_FILE], now.file);
  set_bool(&values[LOG_INFO], now.info);
  set_bool(&values[LOG_WARNING], now.warning);
  set_bool(&values[LOG_ERROR], now.error);
  values[LOG_VERBOSE_LEVEL].parameter_choice_case =
      INFERENCE__LOG_SETTINGS_RESPONSE__SETTING_VALUE__PARAMETER_CHOICE_UINT32_PARAM;
  values[LOG_VERBOSE_LEVEL].uint32_param = now.verbose_level;
  set_text(&values[LOG_FORMAT], log_settings_format_name(now.format));
  Inference__LogSettingsResponse reply = INFERENCE__LOG_SETTINGS_RESPONSE__INIT;
  reply.settings = list;
  reply.n_settings = LOG_SETTINGS;
  call_reply_message(c, &reply.base);
}

void grpc_handle_log_settings(call *c)
{
  const log_request *request = control_request(c, &inference__log_settings_request__descriptor);
  if (request != NULL && !call_fail_if_error(c, change_log(request, &c->arena)))
    reply_log(c);
}
