// The trace flags' values. The main thread, at the start.
#include "frontend/trace/trace_config.h"

#include "base/buffer.h"
#include "base/slice.h"
#include "base/text.h"
#include "frontend/common/observe/frontend_log.h"
#include "triton/core/tritonserver.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_URL "http://localhost:4318/v1/traces"

static error *replace(char **target, const char *text)
{
  return text_replace(target, text) ? NULL : error_no_memory();
}

static error *read_number(const char *name, const char *text, int64_t least, int64_t most,
                          int64_t *value)
{
  if (text_to_int64(slice_of(text), value) && *value <= most) {
    if (*value < least) { // which Triton takes
      frontend_log_warning("%s: '%s' is read as %" PRId64, name, text, least);
      *value = least;
    }
    return NULL;
  }
  return error_new(ERROR_INVALID_ARG,
                   "%s: invalid value '%s', expected a whole number from %" PRId64 " to %" PRId64,
                   name, text, least, most);
}

static error *set_u32(const char *name, const char *text, uint32_t least, uint32_t *target)
{
  int64_t value;
  RETURN_IF_ERROR(read_number(name, text, least, UINT32_MAX, &value));
  *target = (uint32_t)value;
  return NULL;
}

// ---- one function for each kind of setting

static error *set_rate(trace_config *c, const char *value)
{
  return set_u32("rate", value, 0, &c->rate);
}

static error *set_count(trace_config *c, const char *value)
{
  int64_t count;
  RETURN_IF_ERROR(read_number("count", value, -1, INT32_MAX, &count));
  c->count = (int32_t)count;
  return NULL;
}

static error *set_level(trace_config *c, const char *value)
{
  static const struct {
    const char *name;
    uint32_t level;
  } levels[] = {
      {"off", TRITONSERVER_TRACE_LEVEL_DISABLED},
      {"false", TRITONSERVER_TRACE_LEVEL_DISABLED},
      {"on", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS},
      {"true", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS},
      {"min", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS},
      {"max", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS},
      {"tensors", TRITONSERVER_TRACE_LEVEL_TENSORS},
      {"timestamps", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS},
  };
  for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
    if (strcasecmp(levels[i].name, value) != 0)
      continue;
    c->level |= levels[i].level;
    c->off = c->off || levels[i].level == TRITONSERVER_TRACE_LEVEL_DISABLED;
    return NULL;
  }
  return error_new(ERROR_INVALID_ARG,
                   "level: invalid value '%s', expected OFF, TIMESTAMPS or "
                   "TENSORS",
                   value);
}

static error *read_mode(const char *value, trace_mode *mode)
{
  if (strcasecmp(value, "triton") == 0)
    *mode = TRACE_MODE_TRITON;
  else if (strcasecmp(value, "opentelemetry") == 0)
    *mode = TRACE_MODE_OPENTELEMETRY;
  else
    return error_new(ERROR_INVALID_ARG,
                     "invalid trace mode '%s', expected 'triton' or 'opentelemetry'", value);
  return NULL;
}

static error *set_mode(trace_config *c, const char *value)
{
  return read_mode(value, &c->mode);
}

static error *set_file(trace_config *c, const char *value)
{
  return replace(&c->file, value);
}

static error *set_log_frequency(trace_config *c, const char *value)
{
  return set_u32("log-frequency", value, 0, &c->log_frequency);
}

static error *set_url(trace_config *c, const char *value)
{
  c->url_given = true;
  return replace(&c->url, value);
}

static error *add_resource(trace_config *c, const char *value)
{
  const char *equals = strchr(value, '=');
  if (equals == NULL || equals == value) { // which Triton takes
    frontend_log_warning("resource: invalid value '%s', expected <key>=<value>; it is ignored",
                         value);
    return NULL;
  }
  return string_list_add(&c->resources, value) ? NULL : error_no_memory();
}

static error *set_queue_size(trace_config *c, const char *value)
{
  return set_u32("bsp_max_queue_size", value, 1, &c->queue_size);
}

static error *set_delay(trace_config *c, const char *value)
{
  return set_u32("bsp_schedule_delay", value, 0, &c->delay_ms);
}

static error *set_batch_size(trace_config *c, const char *value)
{
  return set_u32("bsp_max_export_batch_size", value, 1, &c->batch_size);
}

static const struct {
  const char *mode; // "": of all modes
  const char *name;
  error *(*set)(trace_config *c, const char *value);
} rows[] = {
    {"", "rate", set_rate},
    {"", "level", set_level},
    {"", "mode", set_mode},
    {"", "count", set_count},
    {"triton", "file", set_file},
    {"triton", "log-frequency", set_log_frequency},
    {"opentelemetry", "url", set_url},
    {"opentelemetry", "resource", add_resource},
    {"opentelemetry", "bsp_max_queue_size", set_queue_size},
    {"opentelemetry", "bsp_schedule_delay", set_delay},
    {"opentelemetry", "bsp_max_export_batch_size", set_batch_size},
};

error *trace_config_set(trace_config *c, const char *text)
{
  const char *equals = strchr(text, '=');
  const char *comma = equals == NULL ? NULL : memchr(text, ',', (size_t)(equals - text));
  slice mode = {text, comma == NULL ? 0 : (size_t)(comma - text)};
  const char *name_start = comma == NULL ? text : comma + 1;
  if (equals == NULL || equals == name_start || equals[1] == '\0' || comma == text)
    return error_new(ERROR_INVALID_ARG,
                     "invalid value '%s', expected <setting>=<value> or <mode>,<setting>=<value>",
                     text);
  slice name = {name_start, (size_t)(equals - name_start)};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    if (strlen(rows[i].mode) == mode.size && strncasecmp(rows[i].mode, mode.data, mode.size) == 0 &&
        slice_equal_text(name, rows[i].name))
      return rows[i].set(c, equals + 1);
  return error_new(ERROR_NOT_FOUND, "'%s' is not known", text);
}

// As OpenTelemetry's own exporters find their collector.
static error *set_default_url(trace_config *c)
{
  const char *url = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const char *base = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
  if (url != NULL || base == NULL)
    return replace(&c->url, url != NULL ? url : DEFAULT_URL);
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_text(&text, base);
  buffer_append_text(&text, text_ends_with(base, "/") ? "v1/traces" : "/v1/traces");
  c->url = buffer_take_text(&text);
  return c->url == NULL ? error_no_memory() : NULL;
}

error *trace_config_init(trace_config *c)
{
  static const struct {
    const char *name;
    error *(*set)(trace_config *c, const char *value);
  } variables[] = {{"OTEL_BSP_MAX_QUEUE_SIZE", set_queue_size},
                   {"OTEL_BSP_SCHEDULE_DELAY", set_delay},
                   {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", set_batch_size}};
  *c = (trace_config){
      .rate = 1000, .count = -1, .queue_size = 2048, .delay_ms = 5000, .batch_size = 512};
  RETURN_IF_ERROR(replace(&c->file, ""));
  RETURN_IF_ERROR(set_default_url(c));
  for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
    const char *value = getenv(variables[i].name);
    error *e = value == NULL ? NULL : variables[i].set(c, value);
    if (e != NULL)
      return error_wrap(e, "%s", variables[i].name);
  }
  return NULL;
}

void trace_config_fini(trace_config *c)
{
  free(c->file);
  free(c->url);
  string_list_fini(&c->resources);
  *c = (trace_config){0};
}

error *trace_config_copy(const trace_config *from, trace_config *to)
{
  *to = *from;
  to->file = strdup(from->file);
  to->url = strdup(from->url);
  to->resources = (string_list){0};
  bool whole = to->file != NULL && to->url != NULL;
  for (size_t i = 0; whole && i < from->resources.count; i++)
    whole = string_list_add(&to->resources, from->resources.items[i]);
  if (whole)
    return NULL;
  trace_config_fini(to);
  return error_no_memory();
}
