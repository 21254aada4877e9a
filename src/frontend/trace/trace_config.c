// SPDX-License-Identifier: Apache-2.0
// Reads the trace flags. See trace_config.h.
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

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define DEFAULT_URL  "http://localhost:4318/v1/traces"

static error *replace_text(char **target, const char *text)
{
  return text_replace(target, text) ? NULL : error_no_memory();
}

// ---- one function for each setting that is no number

static error *set_level(trace_config *c, const char *value)
{
  static const struct {
    const char *name;
    TRITONSERVER_InferenceTraceLevel level;
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
  for (size_t i = 0; i < COUNT(levels); i++) {
    if (strcasecmp(levels[i].name, value) != 0)
      continue;
    int64_t *level = &c->values[TRACE_KEY_LEVEL];
    c->off = c->off || levels[i].level == TRITONSERVER_TRACE_LEVEL_DISABLED;
    *level = c->off ? TRITONSERVER_TRACE_LEVEL_DISABLED : *level | levels[i].level;
    return NULL;
  }
  return error_new(ERROR_INVALID_ARG,
                   "level: invalid value '%s', expected OFF, TIMESTAMPS or TENSORS", value);
}

static error *set_mode(trace_config *c, const char *value)
{
  bool files = strcasecmp(value, "triton") == 0;
  if (!files && strcasecmp(value, "opentelemetry") != 0)
    return error_new(ERROR_INVALID_ARG,
                     "invalid trace mode '%s', expected 'triton' or 'opentelemetry'", value);
  c->mode = files ? TRACE_MODE_TRITON : TRACE_MODE_OPENTELEMETRY;
  return NULL;
}

static error *set_file(trace_config *c, const char *value)
{
  return replace_text(&c->file, value);
}

static error *set_url(trace_config *c, const char *value)
{
  c->url_given = true;
  return replace_text(&c->url, value);
}

static error *add_resource_text(trace_config *c, const char *value)
{
  const char *equals = strchr(value, '=');
  if (equals == NULL || equals == value) { // Triton accepts it
    frontend_log_warning("resource: invalid value '%s', expected <key>=<value>; it is ignored",
                         value);
    return NULL;
  }
  return string_list_add(&c->resources, value) ? NULL : error_no_memory();
}

// ---- all settings

typedef struct row {
  const char *mode; // "": any mode
  const char *name;
  error *(*set)(trace_config *c, const char *value); // NULL: a number
  size_t offset;                                     // of the number, an int64_t
  int64_t least, most;
  const char *variable; // of the environment; NULL: none
} row;

#define NUMBER(member) NULL, offsetof(trace_config, member)
#define KEY(key)       NUMBER(values) + (key) * sizeof(int64_t)

static const row rows[] = {
    {"", "rate", KEY(TRACE_KEY_RATE), 0, UINT32_MAX, NULL},
    {"", "level", set_level, 0, 0, 0, NULL},
    {"", "mode", set_mode, 0, 0, 0, NULL},
    {"", "count", KEY(TRACE_KEY_COUNT), -1, INT32_MAX, NULL},
    {"triton", "file", set_file, 0, 0, 0, NULL},
    {"triton", "log-frequency", KEY(TRACE_KEY_LOG_FREQUENCY), 0, UINT32_MAX, NULL},
    {"opentelemetry", "url", set_url, 0, 0, 0, NULL},
    {"opentelemetry", "resource", add_resource_text, 0, 0, 0, NULL},
    {"opentelemetry", "bsp_max_queue_size", NUMBER(queue_size), 1, UINT32_MAX,
     "OTEL_BSP_MAX_QUEUE_SIZE"},
    {"opentelemetry", "bsp_schedule_delay", NUMBER(delay_ms), 0, UINT32_MAX,
     "OTEL_BSP_SCHEDULE_DELAY"},
    {"opentelemetry", "bsp_max_export_batch_size", NUMBER(batch_size), 1, UINT32_MAX,
     "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"},
};

static error *set_row(trace_config *c, const row *r, const char *value)
{
  if (r->set != NULL)
    return r->set(c, value);
  int64_t *number = (int64_t *)((char *)c + r->offset), given;
  if (!text_to_int64(slice_of(value), &given) || given > r->most)
    return error_new(ERROR_INVALID_ARG,
                     "%s: invalid value '%s', expected a whole number from %" PRId64 " to %" PRId64,
                     r->name, value, r->least, r->most);
  if (given < r->least) // Triton accepts it
    frontend_log_warning("%s: '%s' is read as %" PRId64, r->name, value, r->least);
  *number = given < r->least ? r->least : given;
  return NULL;
}

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
  for (size_t i = 0; i < COUNT(rows); i++)
    if (strlen(rows[i].mode) == mode.size && strncasecmp(rows[i].mode, mode.data, mode.size) == 0 &&
        slice_equal_text(name, rows[i].name))
      return set_row(c, &rows[i], equals + 1);
  return error_new(ERROR_NOT_FOUND, "'%s' is not known", text);
}

// OpenTelemetry's own exporters find their collector in the same way.
static error *set_default_url(trace_config *c)
{
  const char *url = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const char *base = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
  if (url != NULL || base == NULL)
    return replace_text(&c->url, url != NULL ? url : DEFAULT_URL);
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_text(&text, base);
  buffer_append_text(&text, text_ends_with(base, "/") ? "v1/traces" : "/v1/traces");
  c->url = buffer_take_text(&text);
  return c->url == NULL ? error_no_memory() : NULL;
}

error *trace_config_init(trace_config *c)
{
  *c = (trace_config){.values = {[TRACE_KEY_RATE] = 1000, [TRACE_KEY_COUNT] = -1},
                      .queue_size = 2048,
                      .delay_ms = 5000,
                      .batch_size = 512};
  RETURN_IF_ERROR(replace_text(&c->file, ""));
  RETURN_IF_ERROR(set_default_url(c));
  for (size_t i = 0; i < COUNT(rows); i++) {
    const char *value = rows[i].variable == NULL ? NULL : getenv(rows[i].variable);
    error *e = value == NULL ? NULL : set_row(c, &rows[i], value);
    if (e != NULL)
      return error_wrap(e, "%s", rows[i].variable);
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
