// SPDX-License-Identifier: Apache-2.0
// Settings are checked against one table, then applied through the north seam.
#include "frontend/common/observe/log_settings.h"

#include "frontend/common/observe/frontend_log.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct {
  const char *name;
  int format;
} formats[] = {{"default", TRITONSERVER_LOG_DEFAULT},
               {"ISO8601", TRITONSERVER_LOG_ISO8601},
               {"json", NEREID_LOG_JSON}};

bool log_settings_format_of(const char *name, int *format)
{
  for (size_t i = 0; i < COUNT(formats); i++) {
    if (strcmp(formats[i].name, name) != 0)
      continue;
    *format = formats[i].format;
    return true;
  }
  return false;
}

// ---- change ----

typedef TRITONSERVER_Error *switch_setter(TRITONSERVER_ServerOptions *options, bool on);

typedef struct rule {
  const char *name;
  log_setting_kind kind;
  switch_setter *set; // for LOG_SETTING_BOOL
} rule;

// In the order in which Triton reads and prints them.
static const rule rules[] = {
    {"log_file", LOG_SETTING_OTHER, NULL}, // never set
    {"log_info", LOG_SETTING_BOOL, TRITONSERVER_ServerOptionsSetLogInfo},
    {"log_warning", LOG_SETTING_BOOL, TRITONSERVER_ServerOptionsSetLogWarn},
    {"log_error", LOG_SETTING_BOOL, TRITONSERVER_ServerOptionsSetLogError},
    {"log_verbose_level", LOG_SETTING_INTEGER, NULL},
    {"log_format", LOG_SETTING_TEXT, NULL},
};

static error *refuse_setting_kind(const rule *r, bool grpc)
{
  static const char *const of_http[] = {"a boolean", "an unsigned integer", "a string"};
  static const char *const of_json[] = {"boolean", "unsigned-integer", "string"}; // in Triton
  static const char *const of_grpc[] = {"boolean", "int32", "string"};
  if (grpc)
    return error_new(ERROR_INVALID_ARG, "expect %s for '%s'", of_grpc[r->kind], r->name);
  return error_new(ERROR_INVALID_ARG, "attempt to access JSON non-%s as %s: expected %s for '%s'",
                   of_json[r->kind], of_json[r->kind], of_http[r->kind], r->name);
}

static error *check_by_rule(const rule *r, const log_setting *s, bool grpc)
{
  int format;
  if (r->kind == LOG_SETTING_OTHER)
    return error_new(ERROR_UNSUPPORTED,
                     "log file location can not be updated through network protocol");
  if (r->kind != s->kind)
    return refuse_setting_kind(r, grpc);
  if (r->kind == LOG_SETTING_INTEGER && (s->value.integer < 0 || s->value.integer > INT_MAX))
    return error_new(ERROR_INVALID_ARG, "invalid value %" PRId64 " for '%s', expected 0 to %d",
                     s->value.integer, s->name, INT_MAX);
  if (r->kind == LOG_SETTING_TEXT && !log_settings_format_of(s->value.text, &format))
    return error_new(ERROR_INVALID_ARG, "invalid argument for %slog_format, got: %.256s",
                     grpc ? "" : "--", s->value.text);
  return NULL;
}

static void apply_rule(const rule *r, const log_setting *s)
{
  int format = TRITONSERVER_LOG_DEFAULT;
  TRITONSERVER_Error *failure;
  if (r->kind == LOG_SETTING_BOOL) {
    failure = r->set(NULL, s->value.boolean);
  } else if (r->kind == LOG_SETTING_INTEGER) {
    failure = TRITONSERVER_ServerOptionsSetLogVerbose(NULL, (int)s->value.integer);
  } else {
    log_settings_format_of(s->value.text, &format);
    failure = TRITONSERVER_ServerOptionsSetLogFormat(NULL, (TRITONSERVER_LogFormat)format);
  }
  TRITONSERVER_ErrorDelete(failure);
}

static const rule *rule_of(const log_setting *s)
{
  for (size_t i = 0; i < COUNT(rules); i++)
    if (strcmp(rules[i].name, s->name) == 0)
      return &rules[i];
  return NULL;
}

static const log_setting *find_named(const log_setting *settings, size_t count, const rule *r)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(settings[i].name, r->name) == 0)
      return &settings[i];
  return NULL;
}

error *log_settings_join(error *first_owned, error *second_owned)
{
  if (first_owned == NULL || second_owned == NULL)
    return first_owned == NULL ? second_owned : first_owned;
  error *both = error_new(error_get_code(first_owned), "%s; %s", error_message(first_owned),
                          error_message(second_owned));
  error_free(first_owned);
  error_free(second_owned);
  return both;
}

error *log_settings_check_grpc(const log_setting *s)
{
  const rule *r = rule_of(s);
  return r == NULL ? NULL : check_by_rule(r, s, true);
}

error *log_settings_change(const log_setting *settings, size_t count)
{
  error *faults = NULL;
  ignored_settings ignored = {0};
  const log_setting *s;
  for (size_t i = 0; i < COUNT(rules); i++)
    if ((s = find_named(settings, count, &rules[i])) != NULL)
      faults = log_settings_join(faults, check_by_rule(&rules[i], s, false));
  if (faults != NULL)
    return faults;
  for (size_t i = 0; i < count; i++)
    if (rule_of(&settings[i]) == NULL)
      ignored_settings_add(&ignored, settings[i].name);
  ignored_settings_warn(&ignored, "log settings");
  for (size_t i = 0; i < COUNT(rules); i++)
    if ((s = find_named(settings, count, &rules[i])) != NULL)
      apply_rule(&rules[i], s);
  return NULL;
}

// ---- print ----

static const char *format_name(int format)
{
  for (size_t i = 0; i < COUNT(formats); i++)
    if (formats[i].format == format)
      return formats[i].name;
  return "";
}

static void print_setting_value(buffer *json, const log_setting *s)
{
  if (s->kind == LOG_SETTING_BOOL)
    buffer_append_text(json, s->value.boolean ? "true" : "false");
  else if (s->kind == LOG_SETTING_INTEGER)
    buffer_append_format(json, "%" PRId64, s->value.integer);
  else
    buffer_append_json_string(json, slice_of(s->value.text));
}

void log_settings_print(buffer *json, bool typed)
{
  static const char *const fields[] = {"bool_param", "uint32_param", "string_param"};
  NEREID_LogSettings now;
  NEREID_LogGetSettings(&now);
  const log_setting settings[] = {
      {"log_file", LOG_SETTING_TEXT, {.text = now.file}},
      {"log_info", LOG_SETTING_BOOL, {.boolean = now.info}},
      {"log_warning", LOG_SETTING_BOOL, {.boolean = now.warning}},
      {"log_error", LOG_SETTING_BOOL, {.boolean = now.error}},
      {"log_verbose_level", LOG_SETTING_INTEGER, {.integer = now.verbose_level}},
      {"log_format", LOG_SETTING_TEXT, {.text = format_name(now.format)}},
  };
  for (size_t i = 0; i < COUNT(settings); i++) {
    buffer_append_format(json, "%c\"%s\":", i == 0 ? '{' : ',', settings[i].name);
    if (typed)
      buffer_append_format(json, "{\"%s\":", fields[settings[i].kind]);
    print_setting_value(json, &settings[i]);
    buffer_append_text(json, typed ? "}" : "");
  }
  buffer_append_char(json, '}');
}
