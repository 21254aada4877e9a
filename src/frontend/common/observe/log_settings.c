// Settings are checked against one table, then applied through the north seam.
#include "frontend/common/observe/log_settings.h"

#include "frontend/common/observe/ignored_settings.h"

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

const char *log_settings_format_name(int format)
{
  for (size_t i = 0; i < COUNT(formats); i++)
    if (formats[i].format == format)
      return formats[i].name;
  return "";
}

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

static error *refuse_file(const log_setting *s)
{
  (void)s;
  return error_new(ERROR_UNSUPPORTED,
                   "log file location can not be updated through network protocol");
}

static error *check_level(const log_setting *s)
{
  if (s->value.integer >= 0 && s->value.integer <= INT_MAX)
    return NULL;
  return error_new(ERROR_INVALID_ARG, "invalid value %" PRId64 " for '%s', expected 0 to %d",
                   s->value.integer, s->name, INT_MAX);
}

static error *check_format(const log_setting *s)
{
  int format;
  if (log_settings_format_of(s->value.text, &format))
    return NULL;
  return error_new(ERROR_INVALID_ARG, "invalid argument for --log_format, got: %.256s",
                   s->value.text);
}

static void set_info(const log_setting *s)
{
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerOptionsSetLogInfo(NULL, s->value.boolean));
}

static void set_warning(const log_setting *s)
{
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerOptionsSetLogWarn(NULL, s->value.boolean));
}

static void set_error(const log_setting *s)
{
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerOptionsSetLogError(NULL, s->value.boolean));
}

static void set_level(const log_setting *s)
{
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerOptionsSetLogVerbose(NULL, (int)s->value.integer));
}

static void set_format(const log_setting *s)
{
  int format = TRITONSERVER_LOG_DEFAULT;
  log_settings_format_of(s->value.text, &format);
  TRITONSERVER_ErrorDelete(
      TRITONSERVER_ServerOptionsSetLogFormat(NULL, (TRITONSERVER_LogFormat)format));
}

typedef struct rule {
  const char *name;
  log_setting_kind kind;                 // OTHER: any
  error *(*check)(const log_setting *s); // after the kind; NULL: every value is good
  void (*set)(const log_setting *s);
} rule;

// In the order in which Triton reads them.
static const rule rules[] = {
    {"log_file", LOG_SETTING_OTHER, refuse_file, NULL},
    {"log_info", LOG_SETTING_BOOL, NULL, set_info},
    {"log_warning", LOG_SETTING_BOOL, NULL, set_warning},
    {"log_error", LOG_SETTING_BOOL, NULL, set_error},
    {"log_verbose_level", LOG_SETTING_INTEGER, check_level, set_level},
    {"log_format", LOG_SETTING_TEXT, check_format, set_format},
};

static error *check(const rule *r, const log_setting *s)
{
  static const char *const kinds[] = {"a boolean", "an unsigned integer", "a string"};
  if (r->kind != LOG_SETTING_OTHER && r->kind != s->kind)
    return error_new(ERROR_INVALID_ARG, "expected %s for '%s'", kinds[r->kind], r->name);
  return r->check == NULL ? NULL : r->check(s);
}

static const log_setting *find(const log_setting *settings, size_t count, const char *name)
{
  for (size_t i = 0; i < count; i++)
    if (strcmp(settings[i].name, name) == 0)
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

error *log_settings_check(const log_setting *settings, size_t count)
{
  error *faults = NULL;
  for (size_t i = 0; i < COUNT(rules); i++) {
    const log_setting *s = find(settings, count, rules[i].name);
    if (s != NULL)
      faults = log_settings_join(faults, check(&rules[i], s));
  }
  return faults;
}

static void warn_of_unknown(const log_setting *settings, size_t count)
{
  ignored_settings ignored = {0};
  for (size_t i = 0; i < count; i++) {
    bool known = false;
    for (size_t k = 0; k < COUNT(rules); k++)
      known = known || strcmp(settings[i].name, rules[k].name) == 0;
    if (!known)
      ignored_settings_add(&ignored, settings[i].name);
  }
  ignored_settings_warn(&ignored, "log");
}

error *log_settings_change(const log_setting *settings, size_t count)
{
  RETURN_IF_ERROR(log_settings_check(settings, count));
  warn_of_unknown(settings, count);
  for (size_t i = 0; i < COUNT(rules); i++) {
    const log_setting *s = find(settings, count, rules[i].name);
    if (s != NULL)
      rules[i].set(s);
  }
  return NULL;
}

// ---- print ----

static const char *word(bool value)
{
  return value ? "true" : "false";
}

void log_settings_print(buffer *json)
{
  NEREID_LogSettings now;
  NEREID_LogGetSettings(&now);
  buffer_append_text(json, "{\"log_file\":");
  buffer_append_json_string(json, slice_of(now.file));
  buffer_append_format(json,
                       ",\"log_info\":%s,\"log_warning\":%s,\"log_error\":%s,"
                       "\"log_verbose_level\":%" PRIu32 ",\"log_format\":\"%s\"}",
                       word(now.info), word(now.warning), word(now.error), now.verbose_level,
                       log_settings_format_name(now.format));
}
