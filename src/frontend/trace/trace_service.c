// SPDX-License-Identifier: Apache-2.0
// The service: settings behind a lock, and an exporter once tracing has been on. See trace.h. With
// tracing off a request costs one relaxed load.
#include "frontend/trace/trace.h"

#include "base/cleanup.h"
#include "base/number.h"
#include "frontend/trace/exporter.h"
#include "frontend/trace/record.h"
#include "frontend/trace/settings.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct trace_service {
  refcount references; // the owner's, and one for each record that the exporter does not have
  trace_config config;
  _Atomic bool on;
  pthread_mutex_t lock; // guards what follows; requests take it only while tracing is on
  trace_settings settings;
  exporter *exporter; // NULL until tracing is first on
};

static void service_unref(trace_service *s)
{
  if (!refcount_drop(&s->references))
    return;
  if (s->exporter != NULL)
    exporter_free(s->exporter);
  pthread_mutex_destroy(&s->lock);
  trace_config_fini(&s->config);
  free(s);
}

// Without an exporter no trace was ever begun, so nothing needs the old setting.
static void retire_replaced(void *context, trace_setting *old)
{
  const trace_service *s = context;
  if (s->exporter == NULL)
    trace_setting_unref(old);
  else
    exporter_retire(s->exporter, old);
}

static error *make_exporter(trace_service *s)
{
  exporter *made;
  RETURN_IF_ERROR(s->config.mode == TRACE_MODE_TRITON ? file_exporter_new(&s->config, &made)
                                                      : otlp_exporter_new(&s->config, &made));
  assert(s->exporter == NULL);
  RETURN_IF_ERROR(exporter_start(made));
  s->exporter = made;
  return NULL;
}

// Call after each change of the settings.
static error *refresh_exporter(trace_service *s)
{
  bool on = trace_settings_any_on(&s->settings);
  assert(s->exporter != NULL || !atomic_load_explicit(&s->on, memory_order_relaxed));
  if (on && s->exporter == NULL)
    RETURN_IF_ERROR(make_exporter(s));
  atomic_store_explicit(&s->on, on, memory_order_relaxed);
  return NULL;
}

error *trace_service_new(trace_config *config, trace_service **result)
{
  trace_service *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return error_no_memory();
  refcount_init(&s->references);
  pthread_mutex_init(&s->lock, NULL);
  s->settings.retire = retire_replaced;
  s->settings.context = s;
  s->config = *config;
  *config = (trace_config){0};
  error *e = trace_settings_init(&s->settings, &s->config);
  if (e == NULL)
    e = refresh_exporter(s);
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
  service_unref(s);
}

// ---- requests

bool trace_service_is_on(const trace_service *s)
{
  return s != NULL && atomic_load_explicit(&s->on, memory_order_relaxed);
}

static void record_finished(trace_record *r)
{
  trace_service *s = r->service;
  assert(s->exporter != NULL);
  exporter_add(s->exporter, r);
  service_unref(s);
}

// Chooses whether to trace, and references the setting for the record. NULL: not traced.
static trace_setting *choose_setting(trace_service *s, const char *model, bool forced)
{
  LOCK_SCOPE(&s->lock);
  trace_setting *setting = trace_settings_find(&s->settings, model);
  bool traced = setting != NULL &&
                setting->values[TRACE_KEY_LEVEL] != TRITONSERVER_TRACE_LEVEL_DISABLED &&
                trace_setting_sample(&s->settings, setting, forced);
  return traced ? trace_setting_ref(setting) : NULL;
}

// Is the text valid in a header and in a span?
static bool is_ascii_text(slice text)
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
  if (tracestate.size > TRACESTATE_MAX_BYTES || !is_ascii_text(tracestate))
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
  trace_setting *setting = choose_setting(s, model, forced);
  if (setting == NULL)
    return NULL;
  trace_record *r = record_new(setting);
  if (r == NULL) {
    trace_setting_unref(setting);
    return NULL;
  }
  refcount_take(&s->references);
  r->service = s;
  r->finished = record_finished;
  if (spans)
    set_spans(r, forced ? &client : NULL, forced ? parent->tracestate : (slice){"", 0});
  return r;
}

// ---- the extension

error *trace_service_change(trace_service *s, const char *model, const trace_member *members,
                            size_t count)
{
  trace_update u;
  RETURN_IF_ERROR(trace_update_read(&u, members, count));
  LOCK_SCOPE(&s->lock);
  error *e = trace_settings_update(&s->settings, model, &u);
  error *started = refresh_exporter(s);
  if (e == NULL)
    return started;
  error_free(started);
  return e;
}

// Prints a setting; all but trace_level have one value.
static void print_values(buffer *json, bool wrapped, const char *key, const char *const *values,
                         size_t count)
{
  bool list = strcmp(key, trace_key_name(TRACE_KEY_LEVEL)) == 0;
  const char *separator = wrapped ? ":{\"value\":[" : list ? ":[" : ":";
  buffer_append_char(json, json->size == 0 ? '{' : ',');
  buffer_append_json_string(json, slice_of(key));
  for (size_t i = 0; i < count; i++) {
    buffer_append_text(json, separator);
    buffer_append_json_string(json, slice_of(values[i]));
    separator = ",";
  }
  buffer_append_text(json, wrapped ? "]}" : list ? "]" : "");
}

static void print_setting(buffer *json, bool wrapped, const char *key, const char *text)
{
  print_values(json, wrapped, key, &text, 1);
}

static void print_setting_number(buffer *json, bool wrapped, const char *key, int64_t value)
{
  char text[NUMBER_TEXT_BYTES + 1];
  text[number_print_i64(text, value)] = '\0';
  print_setting(json, wrapped, key, text);
}

static void print_opentelemetry(const trace_config *c, bool wrapped, buffer *json)
{
  print_setting(json, wrapped, "trace_mode", "opentelemetry");
  if (c->url_given)
    print_setting(json, wrapped, "url", c->url);
  for (size_t i = 0; i < c->resources.count; i++)
    print_setting(json, wrapped, "resource", c->resources.items[i]);
  print_setting_number(json, wrapped, "bsp_max_queue_size", c->queue_size);
  print_setting_number(json, wrapped, "bsp_schedule_delay", c->delay_ms);
  print_setting_number(json, wrapped, "bsp_max_export_batch_size", c->batch_size);
}

void trace_service_print(trace_service *s, const char *model, bool wrapped, buffer *json)
{
  int64_t values[TRACE_KEY_COUNT_OF_KEYS];
  const char *levels[TRACE_LEVEL_NAMES_MAX];
  bool files = s->config.mode == TRACE_MODE_TRITON;
  pthread_mutex_lock(&s->lock);
  memcpy(values, trace_settings_find(&s->settings, model)->values, sizeof(values));
  pthread_mutex_unlock(&s->lock);
  print_values(json, wrapped, trace_key_name(TRACE_KEY_LEVEL), levels,
               trace_level_names(values[TRACE_KEY_LEVEL], levels));
  for (size_t key = TRACE_KEY_RATE; key < TRACE_KEY_COUNT_OF_KEYS; key++)
    if (files || key != TRACE_KEY_LOG_FREQUENCY)
      print_setting_number(json, wrapped, trace_key_name((trace_key)key), values[key]);
  if (files) {
    print_setting(json, wrapped, "trace_file", s->config.file);
    print_setting(json, wrapped, "trace_mode", "triton");
  } else {
    print_opentelemetry(&s->config, wrapped, json);
  }
  buffer_append_char(json, '}');
}
