// The service: settings behind a lock, and the exporter once there is something to export. See
// trace.h. With tracing off a request costs one relaxed load.
#include "frontend/trace/trace.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "frontend/trace/exporter.h"
#include "frontend/trace/record.h"
#include "frontend/trace/settings.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct trace_service {
  refcount references; // the owner's, and one for each record that is not with the exporter
  trace_config config;
  _Atomic bool on;
  pthread_mutex_t lock; // guards what follows; taken for a request only while tracing is on
  trace_settings settings;
  exporter *exporter; // from the first time on that tracing is on
};

static void unref(trace_service *s)
{
  if (!refcount_drop(&s->references))
    return;
  if (s->exporter != NULL)
    exporter_free(s->exporter);
  pthread_mutex_destroy(&s->lock);
  trace_config_fini(&s->config);
  free(s);
}

// Without an exporter no trace was ever begun.
static void retire(void *context, trace_setting *old)
{
  const trace_service *s = context;
  if (s->exporter == NULL)
    trace_setting_unref(old);
  else
    exporter_retire(s->exporter, old);
}

static error *make_exporter(trace_service *s)
{
  trace_sink *sink;
  RETURN_IF_ERROR(s->config.mode == TRACE_MODE_TRITON ? file_sink_new(&s->config, &sink)
                                                      : otlp_sink_new(&s->config, &sink));
  return exporter_new(sink, &s->exporter);
}

// After each change of the settings.
static error *refresh(trace_service *s)
{
  bool on = trace_settings_any_on(&s->settings);
  if (on && s->exporter == NULL)
    RETURN_IF_ERROR(make_exporter(s));
  atomic_store_explicit(&s->on, on, memory_order_relaxed);
  return NULL;
}

error *trace_service_new(const trace_config *config, trace_service **result)
{
  trace_service *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return error_no_memory();
  refcount_init(&s->references);
  pthread_mutex_init(&s->lock, NULL);
  s->settings.retire = retire;
  s->settings.context = s;
  error *e = trace_config_copy(config, &s->config);
  if (e == NULL)
    e = trace_settings_init(&s->settings, config);
  if (e == NULL)
    e = refresh(s);
  if (e != NULL)
    trace_service_free(s);
  else
    *result = s;
  return e;
}

void trace_service_free(trace_service *s)
{
  if (s == NULL)
    return;
  atomic_store_explicit(&s->on, false, memory_order_relaxed);
  pthread_mutex_lock(&s->lock);
  trace_settings_fini(&s->settings);
  pthread_mutex_unlock(&s->lock);
  exporter_stop(s->exporter);
  unref(s);
}

// ---- requests

bool trace_service_is_on(const trace_service *s)
{
  return s != NULL && atomic_load_explicit(&s->on, memory_order_relaxed);
}

static void finished(trace_record *r)
{
  trace_service *s = r->service;
  exporter_add(s->exporter, r);
  unref(s);
}

// Chooses; the setting is referenced for the record. NULL: the request is not traced.
static trace_setting *choose(trace_service *s, const char *model, bool forced)
{
  LOCK_SCOPE(&s->lock);
  trace_setting *setting = trace_settings_find(&s->settings, model);
  bool traced = setting != NULL && setting->level != TRITONSERVER_TRACE_LEVEL_DISABLED &&
                trace_setting_sample(&s->settings, setting, forced);
  return traced ? trace_setting_ref(setting) : NULL;
}

// What a header may have, and a span's text.
static bool is_printable(slice text)
{
  bool printable = true;
  for (size_t i = 0; i < text.size; i++)
    printable = printable && text.data[i] >= ' ' && text.data[i] <= '~';
  return printable;
}

// Continues the client's trace, or begins one.
static void set_spans(trace_record *r, const trace_context_ids *client, slice tracestate)
{
  r->spans = true;
  r->root_span = span_id_new();
  if (client == NULL) {
    trace_context_new(&r->context);
    return;
  }
  r->context = *client;
  if (tracestate.size > TRACESTATE_MAX_BYTES || !is_printable(tracestate))
    return;
  char *copy = arena_copy_text(&r->memory, tracestate);
  if (copy != NULL)
    r->tracestate = (slice){copy, tracestate.size};
}

trace_record *trace_begin(trace_service *s, const char *model, const trace_parent *parent)
{
  if (!trace_service_is_on(s))
    return NULL;
  trace_context_ids client;
  bool spans = s->config.mode == TRACE_MODE_OPENTELEMETRY;
  bool forced = spans && parent != NULL && trace_context_read(parent->traceparent, &client);
  trace_setting *setting = choose(s, model, forced);
  if (setting == NULL)
    return NULL;
  trace_record *r = record_new(setting, setting->level);
  if (r == NULL) {
    trace_setting_unref(setting);
    return NULL;
  }
  refcount_take(&s->references);
  r->service = s;
  r->finished = finished;
  if (spans)
    set_spans(r, forced ? &client : NULL, forced ? parent->tracestate : (slice){"", 0});
  return r;
}

// ---- the extension

const char *trace_key_name(trace_key key)
{
  static const char *const names[TRACE_KEY_COUNT_OF_KEYS] = {
      [TRACE_KEY_LEVEL] = "trace_level",
      [TRACE_KEY_RATE] = "trace_rate",
      [TRACE_KEY_COUNT] = "trace_count",
      [TRACE_KEY_LOG_FREQUENCY] = "log_frequency",
  };
  return names[key];
}

bool trace_key_is_known(const char *name)
{
  for (size_t key = 0; key < TRACE_KEY_COUNT_OF_KEYS; key++)
    if (strcmp(name, trace_key_name((trace_key)key)) == 0)
      return true;
  return false;
}

error *trace_file_refused(void)
{
  return error_new(ERROR_UNSUPPORTED,
                   "trace file location can not be updated through network protocol");
}

static const struct {
  const char *name;
  uint32_t bit;
} levels[] = {
    {"TIMESTAMPS", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS},
    {"TENSORS", TRITONSERVER_TRACE_LEVEL_TENSORS},
};

#define LEVEL_COUNT (sizeof(levels) / sizeof(levels[0]))

// Levels that are not known are ignored, as in Triton.
static error *read_level(trace_update *u, const slice *values, size_t count)
{
  bool off = false;
  u->level = TRITONSERVER_TRACE_LEVEL_DISABLED;
  for (size_t i = 0; i < count; i++) {
    off = off || slice_equal_text(values[i], "OFF");
    for (size_t k = 0; k < LEVEL_COUNT; k++)
      if (slice_equal_text(values[i], levels[k].name))
        u->level |= levels[k].bit;
  }
  if (off && count > 1)
    return error_new(ERROR_INVALID_ARG, "Expect only one trace level 'OFF' is specified");
  u->given[TRACE_KEY_LEVEL] = off || u->level != TRITONSERVER_TRACE_LEVEL_DISABLED;
  return NULL;
}

static bool is_number(slice text)
{
  size_t digits = text.size > 0 && (text.data[0] == '-' || text.data[0] == '+') ? 1 : 0;
  bool valid = text.size > digits;
  for (size_t i = digits; i < text.size; i++)
    valid = valid && text.data[i] >= '0' && text.data[i] <= '9';
  return valid;
}

static error *read_number(const char *name, slice text, int64_t least, int64_t most, int64_t *value)
{
  int shown = text.size > 256 ? 256 : (int)text.size;
  if (!is_number(text))
    return error_new(ERROR_INVALID_ARG, "Unable to parse '%s', got: %.*s", name, shown, text.data);
  bool in_range = text_to_int64(text, value);
  if (in_range && least < 0 && *value < least)
    return error_new(ERROR_INVALID_ARG,
                     "Unable to parse '%s'. Expecting value >= %" PRId64 ", got:%.*s", name, least,
                     shown, text.data);
  if (in_range && *value >= least && *value <= most)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "Unable to parse '%s', value is out of range [ %" PRId64 ", %" PRId64
                   " ], got: %.*s",
                   name, least, most, shown, text.data);
}

error *trace_update_read(trace_update *u, trace_key key, const slice *values, size_t count)
{
  const char *name = trace_key_name(key);
  int64_t number;
  u->cleared[key] = count == 0;
  if (count == 0)
    return NULL;
  if (key == TRACE_KEY_LEVEL)
    return read_level(u, values, count);
  if (count > 1)
    return error_new(ERROR_INVALID_ARG, "expect only 1 value for '%s'", name);
  bool counts = key == TRACE_KEY_COUNT;
  RETURN_IF_ERROR(
      read_number(name, values[0], counts ? -1 : 0, counts ? INT32_MAX : UINT32_MAX, &number));
  u->given[key] = true;
  if (key == TRACE_KEY_RATE)
    u->rate = (uint32_t)number;
  else if (counts)
    u->count = (int32_t)number;
  else
    u->log_frequency = (uint32_t)number;
  return NULL;
}

error *trace_service_update(trace_service *s, const char *model, const trace_update *u)
{
  LOCK_SCOPE(&s->lock);
  error *e = trace_settings_update(&s->settings, model, u);
  error *started = refresh(s);
  if (e == NULL)
    return started;
  error_free(started);
  return e;
}

// ---- what is in force

// What is shown, copied so that no lock is held while it is.
typedef struct shown {
  uint32_t level;
  uint32_t rate;
  int32_t count;
  uint32_t log_frequency;
} shown;

static shown look_up(trace_service *s, const char *model)
{
  LOCK_SCOPE(&s->lock);
  const trace_setting *setting = trace_settings_find(&s->settings, model);
  return (shown){setting->level, setting->rate, setting->count, setting->log_frequency};
}

static void visit_level(uint32_t level, trace_visitor *visit, void *context)
{
  const char *names[LEVEL_COUNT];
  size_t count = 0;
  for (size_t i = 0; i < LEVEL_COUNT; i++)
    if ((level & levels[i].bit) != 0)
      names[count++] = levels[i].name;
  if (count == 0)
    names[count++] = "OFF";
  visit(context, trace_key_name(TRACE_KEY_LEVEL), names, count);
}

static void visit_text(const char *key, const char *text, trace_visitor *visit, void *context)
{
  visit(context, key, &text, 1);
}

static void visit_number(const char *key, int64_t value, trace_visitor *visit, void *context)
{
  char text[24];
  snprintf(text, sizeof(text), "%" PRId64, value);
  visit_text(key, text, visit, context);
}

static void visit_opentelemetry(const trace_config *c, trace_visitor *visit, void *context)
{
  visit_text("trace_mode", "opentelemetry", visit, context);
  if (c->url_given)
    visit_text("url", c->url, visit, context);
  for (size_t i = 0; i < c->resources.count; i++)
    visit_text("resource", c->resources.items[i], visit, context);
  visit_number("bsp_max_queue_size", c->queue_size, visit, context);
  visit_number("bsp_schedule_delay", c->delay_ms, visit, context);
  visit_number("bsp_max_export_batch_size", c->batch_size, visit, context);
}

void trace_service_visit(trace_service *s, const char *model, trace_visitor *visit, void *context)
{
  const shown now = look_up(s, model);
  visit_level(now.level, visit, context);
  visit_number(trace_key_name(TRACE_KEY_RATE), now.rate, visit, context);
  visit_number(trace_key_name(TRACE_KEY_COUNT), now.count, visit, context);
  if (s->config.mode == TRACE_MODE_OPENTELEMETRY) {
    visit_opentelemetry(&s->config, visit, context);
    return;
  }
  visit_number(trace_key_name(TRACE_KEY_LOG_FREQUENCY), now.log_frequency, visit, context);
  visit_text("trace_file", s->config.file, visit, context);
  visit_text("trace_mode", "triton", visit, context);
}
