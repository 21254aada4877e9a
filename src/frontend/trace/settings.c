// Settings of traces: how they inherit and how requests are chosen. See settings.h.
#include "frontend/trace/settings.h"

#include <stdlib.h>

static trace_setting *setting_new(uint32_t level, uint32_t rate, int32_t count,
                                  uint32_t log_frequency)
{
  trace_setting *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return NULL;
  refcount_init(&s->references);
  s->level = level;
  s->rate = rate;
  s->count = count;
  s->counted = count >= 0;
  s->log_frequency = log_frequency;
  return s;
}

trace_setting *trace_setting_ref(trace_setting *s)
{
  refcount_take(&s->references);
  return s;
}

void trace_setting_unref(trace_setting *s)
{
  if (s == NULL || !refcount_drop(&s->references))
    return;
  buffer_fini(&s->text);
  free(s);
}

error *trace_settings_init(trace_settings *all, const trace_config *c)
{
  uint32_t level = c->off ? TRITONSERVER_TRACE_LEVEL_DISABLED : c->level;
  all->needs_file = c->mode == TRACE_MODE_TRITON && c->file[0] == '\0';
  all->startup = setting_new(level, c->rate, c->count, c->log_frequency);
  all->global = setting_new(level, c->rate, c->count, c->log_frequency);
  return all->startup == NULL || all->global == NULL ? error_no_memory() : NULL;
}

void trace_settings_fini(trace_settings *all)
{
  const string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&all->models, &i)) != NULL;)
    all->retire(all->context, entry->value);
  string_map_fini(&all->models);
  if (all->global != NULL)
    all->retire(all->context, all->global);
  trace_setting_unref(all->startup);
}

trace_setting *trace_settings_find(const trace_settings *all, const char *model)
{
  trace_setting *s = string_map_get(&all->models, slice_of(model));
  return s == NULL ? all->global : s;
}

// ---- choosing requests

// Why a setting traces nothing by itself; NULL: it does, unless its count is at its end.
static const char *fault_of(const trace_settings *all, const trace_setting *s)
{
  if (s->level == TRITONSERVER_TRACE_LEVEL_DISABLED)
    return "tracing is disabled";
  if (s->rate == 0)
    return "sample rate must be non-zero";
  return all->needs_file ? "trace file name is not given" : NULL;
}

bool trace_setting_sample(const trace_settings *all, trace_setting *s, bool forced)
{
  bool valid = fault_of(all, s) == NULL && s->count != 0;
  bool chosen = forced;
  // As Triton counts: requests that no setting would trace do not count either.
  if (s->rate != 0 && (valid || forced) && ++s->seen % s->rate == 0 && s->count != 0) {
    chosen = true;
    if (s->count > 0 && --s->count == 0)
      atomic_store_explicit(&s->exhausted, true, memory_order_relaxed);
  }
  if (chosen)
    atomic_fetch_add_explicit(&s->created, 1, memory_order_relaxed);
  return chosen;
}

static bool is_on(const trace_settings *all, const trace_setting *s)
{
  return s->level != TRITONSERVER_TRACE_LEVEL_DISABLED && !all->needs_file;
}

bool trace_settings_any_on(const trace_settings *all)
{
  const string_map_entry *entry;
  bool any = is_on(all, all->global);
  for (size_t i = 0; !any && (entry = string_map_walk(&all->models, &i)) != NULL;)
    any = is_on(all, entry->value);
  return any;
}

// ---- updates

// The setting that follows from what was specified before (`current`, or NULL), what is asked for
// now, and what is above.
static trace_setting *combine(const trace_setting *current, const trace_setting *above,
                              const trace_update *u)
{
  trace_setting *s = setting_new(above->level, above->rate, above->count, above->log_frequency);
  if (s == NULL)
    return NULL;
  for (size_t key = 0; key < TRACE_KEY_COUNT_OF_KEYS; key++)
    s->specified[key] =
        !u->cleared[key] && (u->given[key] || (current != NULL && current->specified[key]));
#define TAKE(key, field)                                                                           \
  if (s->specified[key])                                                                           \
    s->field = u->given[key] ? u->field : current->field;
  TAKE(TRACE_KEY_LEVEL, level)
  TAKE(TRACE_KEY_RATE, rate)
  TAKE(TRACE_KEY_COUNT, count)
  TAKE(TRACE_KEY_LOG_FREQUENCY, log_frequency)
  s->counted = s->count >= 0;
#undef TAKE
  return s;
}

static bool any_specified(const trace_setting *s)
{
  bool any = false;
  for (size_t key = 0; key < TRACE_KEY_COUNT_OF_KEYS; key++)
    any = any || s->specified[key];
  return any;
}

static error *check(const trace_settings *all, const trace_setting *s)
{
  const char *fault = fault_of(all, s);
  if (s->level == TRITONSERVER_TRACE_LEVEL_DISABLED || (fault == NULL && s->count != 0))
    return NULL;
  return error_new(ERROR_INVALID_ARG, "Attempting to set invalid trace setting :%s",
                   fault == NULL ? "" : fault);
}

static error *update_global(trace_settings *all, const trace_update *u)
{
  trace_setting *s = combine(all->global, all->startup, u);
  error *e = s == NULL ? error_no_memory() : check(all, s);
  if (e != NULL) {
    trace_setting_unref(s);
    return e;
  }
  all->retire(all->context, all->global);
  all->global = s;
  return NULL;
}

// A model without a setting of its own has the server's.
static error *update_model(trace_settings *all, slice model, const trace_update *u)
{
  trace_setting *current = string_map_get(&all->models, model);
  trace_setting *s = combine(current, all->global, u);
  if (s == NULL)
    return error_no_memory();
  bool own = any_specified(s);
  error *e = own ? check(all, s) : NULL;
  if (e == NULL && own && !string_map_put(&all->models, model, s))
    e = error_no_memory();
  if (e == NULL && !own)
    string_map_remove(&all->models, model);
  if (e != NULL || !own)
    trace_setting_unref(s);
  if (e == NULL && current != NULL)
    all->retire(all->context, current);
  return e;
}

// What models take from the server follows it. Keys of the map move when it changes.
static error *update_all_models(trace_settings *all)
{
  const trace_update nothing = {0};
  const string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&all->models, &i)) != NULL;)
    RETURN_IF_ERROR(update_model(all, (slice){entry->key, entry->key_size}, &nothing));
  return NULL;
}

error *trace_settings_update(trace_settings *all, const char *model, const trace_update *u)
{
  if (model[0] != '\0')
    return update_model(all, slice_of(model), u);
  RETURN_IF_ERROR(update_global(all, u));
  return update_all_models(all);
}
