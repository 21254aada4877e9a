// SPDX-License-Identifier: Apache-2.0
// Settings of traces: inheritance, the choice of requests, names in the extension. See settings.h
// and trace.h.
#include "frontend/trace/settings.h"

#include "base/text.h"
#include "frontend/common/observe/frontend_log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 16 // of one key; more than there are levels

static trace_setting *setting_new(const int64_t values[TRACE_KEY_COUNT_OF_KEYS])
{
  trace_setting *s = calloc(1, sizeof(*s));
  if (s == NULL)
    return NULL;
  refcount_init(&s->references);
  memcpy(s->values, values, sizeof(s->values));
  s->counted = s->values[TRACE_KEY_COUNT] >= 0;
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
  all->needs_file = c->mode == TRACE_MODE_TRITON && c->file[0] == '\0';
  all->startup = setting_new(c->values);
  all->global = setting_new(c->values);
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

// Why the setting cannot trace; NULL: it can, unless its count is used up.
static const char *fault_of(const trace_settings *all, const trace_setting *s)
{
  if (s->values[TRACE_KEY_LEVEL] == TRITONSERVER_TRACE_LEVEL_DISABLED)
    return "tracing is disabled";
  if (s->values[TRACE_KEY_RATE] == 0)
    return "sample rate must be non-zero";
  return all->needs_file ? "trace file name is not given" : NULL;
}

bool trace_setting_sample(const trace_settings *all, trace_setting *s, bool forced)
{
  int64_t *count = &s->values[TRACE_KEY_COUNT];
  uint64_t rate = (uint64_t)s->values[TRACE_KEY_RATE];
  bool valid = fault_of(all, s) == NULL && *count != 0;
  bool chosen = forced;
  // As Triton counts: only requests that could be traced count.
  if (rate != 0 && (valid || forced) && ++s->seen % rate == 0 && *count != 0) {
    chosen = true;
    if (*count > 0 && --*count == 0)
      atomic_store_explicit(&s->exhausted, true, memory_order_relaxed);
  }
  if (chosen)
    atomic_fetch_add_explicit(&s->created, 1, memory_order_relaxed);
  return chosen;
}

static bool is_on(const trace_settings *all, const trace_setting *s)
{
  return s->values[TRACE_KEY_LEVEL] != TRITONSERVER_TRACE_LEVEL_DISABLED && !all->needs_file;
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

static bool any_specified(const trace_setting *s)
{
  bool any = false;
  for (size_t key = 0; key < TRACE_KEY_COUNT_OF_KEYS; key++)
    any = any || s->specified[key];
  return any;
}

// Makes the setting from the earlier one (`current`, or NULL), the change, and the level above.
static trace_setting *combine(const trace_setting *current, const trace_setting *above,
                              const trace_update *u)
{
  trace_setting *s = setting_new(above->values);
  for (size_t key = 0; s != NULL && key < TRACE_KEY_COUNT_OF_KEYS; key++) {
    bool kept = current != NULL && current->specified[key];
    s->specified[key] = !u->cleared[key] && (u->given[key] || kept);
    if (s->specified[key])
      s->values[key] = u->given[key] ? u->values[key] : current->values[key];
  }
  if (s != NULL)
    s->counted = s->values[TRACE_KEY_COUNT] >= 0;
  return s;
}

static error *check_setting(const trace_settings *all, const trace_setting *s)
{
  const char *fault = fault_of(all, s);
  if (s->values[TRACE_KEY_LEVEL] == TRITONSERVER_TRACE_LEVEL_DISABLED ||
      (fault == NULL && s->values[TRACE_KEY_COUNT] != 0))
    return NULL;
  return error_new(ERROR_INVALID_ARG, "Attempting to set invalid trace setting :%s",
                   fault == NULL ? "" : fault);
}

// Replaces the setting of a model, or the server's for "". A model without values of its own loses
// its setting and has the server's.
static error *put_setting(trace_settings *all, slice model, trace_setting *s)
{
  bool own = model.size == 0 || any_specified(s);
  if (own)
    RETURN_IF_ERROR(check_setting(all, s));
  if (model.size == 0)
    all->global = s;
  else if (own && !string_map_put(&all->models, model, s))
    return error_no_memory();
  else if (!own)
    string_map_remove(&all->models, model);
  if (!own)
    trace_setting_unref(s);
  return NULL;
}

static error *update_setting(trace_settings *all, slice model, const trace_update *u)
{
  bool global = model.size == 0;
  trace_setting *current = global ? all->global : string_map_get(&all->models, model);
  trace_setting *s = combine(current, global ? all->startup : all->global, u);
  error *e = s == NULL ? error_no_memory() : put_setting(all, model, s);
  if (e != NULL)
    trace_setting_unref(s);
  else if (current != NULL)
    all->retire(all->context, current);
  return e;
}

error *trace_settings_update(trace_settings *all, const char *model, const trace_update *u)
{
  const trace_update nothing = {0};
  const string_map_entry *entry;
  RETURN_IF_ERROR(update_setting(all, slice_of(model), u));
  // Models inherit the server's new values. The map's keys move when it changes.
  for (size_t i = 0; model[0] == '\0' && (entry = string_map_walk(&all->models, &i)) != NULL;)
    RETURN_IF_ERROR(update_setting(all, (slice){entry->key, entry->key_size}, &nothing));
  return NULL;
}

// ---- the extension's names and texts

static const struct {
  const char *name;
  int64_t least, most; // of numbers
} keys[TRACE_KEY_COUNT_OF_KEYS] = {
    [TRACE_KEY_LEVEL] = {"trace_level", 0, 0},
    [TRACE_KEY_RATE] = {"trace_rate", 0, UINT32_MAX},
    [TRACE_KEY_COUNT] = {"trace_count", -1, INT32_MAX},
    [TRACE_KEY_LOG_FREQUENCY] = {"log_frequency", 0, UINT32_MAX},
};

const char *trace_key_name(trace_key key)
{
  return keys[key].name;
}

bool trace_key_is_known(const char *name)
{
  for (size_t key = 0; key < TRACE_KEY_COUNT_OF_KEYS; key++)
    if (strcmp(name, keys[key].name) == 0)
      return true;
  return false;
}

static const struct {
  const char *name;
  int64_t bit;
} levels[TRACE_LEVEL_NAMES_MAX] = {
    {"TIMESTAMPS", TRITONSERVER_TRACE_LEVEL_TIMESTAMPS},
    {"TENSORS", TRITONSERVER_TRACE_LEVEL_TENSORS},
};

size_t trace_level_names(int64_t level, const char *names[TRACE_LEVEL_NAMES_MAX])
{
  size_t count = 0;
  for (size_t i = 0; i < TRACE_LEVEL_NAMES_MAX; i++)
    if ((level & levels[i].bit) != 0)
      names[count++] = levels[i].name;
  if (count == 0)
    names[count++] = "OFF";
  return count;
}

// The bit of a level's name; 0 for OFF and for unknown names.
static int64_t level_of(slice name)
{
  for (size_t k = 0; k < TRACE_LEVEL_NAMES_MAX; k++)
    if (slice_equal_text(name, levels[k].name))
      return levels[k].bit;
  return 0;
}

// Unknown levels are ignored, as in Triton, with a log line.
static error *read_level(trace_update *u, const slice *values, size_t count)
{
  bool off = false;
  int64_t level = TRITONSERVER_TRACE_LEVEL_DISABLED;
  for (size_t i = 0; i < count; i++) {
    const int64_t bit = level_of(values[i]);
    const bool is_off = slice_equal_text(values[i], "OFF");
    off = off || is_off;
    level |= bit;
    if (bit == 0 && !is_off)
      frontend_log_warning("'%.*s' is no trace level and is ignored, expected OFF, TIMESTAMPS or "
                           "TENSORS",
                           (int)(values[i].size < 64 ? values[i].size : 64), values[i].data);
  }
  if (off && count > 1)
    return error_new(ERROR_INVALID_ARG, "Expect only one trace level 'OFF' is specified");
  u->values[TRACE_KEY_LEVEL] = level;
  u->given[TRACE_KEY_LEVEL] = off || level != TRITONSERVER_TRACE_LEVEL_DISABLED;
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

static error *read_setting_number(trace_key key, slice text, int64_t *value)
{
  const char *name = keys[key].name;
  int64_t least = keys[key].least, most = keys[key].most;
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

static error *read_member(trace_update *u, trace_key key, const trace_member *m)
{
  u->cleared[key] = m->count == 0;
  if (m->count == 0)
    return NULL;
  if (m->count > VALUES_MAX)
    return error_new(ERROR_INVALID_ARG, "'%s' has more than %d values", m->name, VALUES_MAX);
  if (key == TRACE_KEY_LEVEL)
    return read_level(u, m->values, m->count);
  if (m->count > 1)
    return error_new(ERROR_INVALID_ARG, "expect only 1 value for '%s'", m->name);
  RETURN_IF_ERROR(read_setting_number(key, m->values[0], &u->values[key]));
  u->given[key] = true;
  return NULL;
}

static const trace_member *find_member(const trace_member *members, size_t count, const char *name)
{
  while (count-- > 0)
    if (strcmp(members[count].name, name) == 0)
      return &members[count];
  return NULL;
}

error *trace_update_read(trace_update *u, const trace_member *members, size_t count)
{
  ignored_settings ignored = {0};
  *u = (trace_update){0};
  if (find_member(members, count, "trace_file") != NULL)
    return error_new(ERROR_UNSUPPORTED,
                     "trace file location can not be updated through network protocol");
  for (trace_key key = 0; key < TRACE_KEY_COUNT_OF_KEYS; key++) {
    const trace_member *m = find_member(members, count, keys[key].name);
    if (m != NULL)
      RETURN_IF_ERROR(read_member(u, key, m));
  }
  for (size_t i = 0; i < count; i++)
    if (!trace_key_is_known(members[i].name))
      ignored_settings_add(&ignored, members[i].name);
  ignored_settings_warn(&ignored, "trace settings");
  return NULL;
}
