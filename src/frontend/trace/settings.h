// SPDX-License-Identifier: Apache-2.0
// Settings that choose which requests are traced. A setting is replaced, never changed, so that
// running traces end under the one that they began with; only its counters change.
#ifndef NEREID_FRONTEND_TRACE_SETTINGS_H
#define NEREID_FRONTEND_TRACE_SETTINGS_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/refcount.h"
#include "base/string_map.h"
#include "frontend/trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct trace_setting trace_setting;

struct trace_setting {
  refcount references;
  int64_t values[TRACE_KEY_COUNT_OF_KEYS]; // the count: guarded by the owner's lock
  bool counted;                            // it began with a count
  bool specified[TRACE_KEY_COUNT_OF_KEYS]; // else the value is the level above's

  uint64_t seen; // requests; guarded by the owner's lock

  _Atomic bool exhausted;   // the count is used up
  _Atomic uint64_t created; // traces begun and not lost

  // --- The exporter's
  trace_setting *next_replaced;
  buffer text; // entries that are not in a file yet
  uint32_t in_text;
  uint64_t collected;
  bool retired; // replaced: later records are written at once
};

// Settings of the server and of models. Not thread-safe: the owner locks.
typedef struct trace_settings {
  bool needs_file; // no file is named: a setting with a level is invalid
  trace_setting *startup, *global;
  string_map models; // trace_setting, each referenced
  // Takes over a reference to a replaced setting.
  void (*retire)(void *context, trace_setting *old_owned);
  void *context;
} trace_settings;

// A client's change: for each key nothing, a value, or back to the level above.
typedef struct trace_update {
  bool given[TRACE_KEY_COUNT_OF_KEYS];
  bool cleared[TRACE_KEY_COUNT_OF_KEYS];
  int64_t values[TRACE_KEY_COUNT_OF_KEYS];
} trace_update;

trace_setting *trace_setting_ref(trace_setting *s);
void trace_setting_unref(trace_setting *s); // NULL is allowed

error *trace_settings_init(trace_settings *all, const trace_config *config);
void trace_settings_fini(trace_settings *all); // retires all of them

// The setting that applies to a model; borrowed.
trace_setting *trace_settings_find(const trace_settings *all, const char *model);

// The two halves of trace_service_change.
error *trace_update_read(trace_update *u, const trace_member *members, size_t count);
error *trace_settings_update(trace_settings *all, const char *model, const trace_update *u);

// Decides whether a request is traced. `forced`: its client traces it, so rate and count do not
// matter.
bool trace_setting_sample(const trace_settings *all, trace_setting *s, bool forced);

// Fills in a level's names in the extension; returns how many.
#define TRACE_LEVEL_NAMES_MAX 2
size_t trace_level_names(int64_t level, const char *names[TRACE_LEVEL_NAMES_MAX]);

// May any setting trace a request?
bool trace_settings_any_on(const trace_settings *all);

#endif
