// SPDX-License-Identifier: Apache-2.0
// Rules of a configuration, and how they report. Each rule continues after a mistake, so that
// `nereid check` has all of them; a load wants only the first error. Private to src/config; on its
// caller's thread.
#ifndef NEREID_CONFIG_RULES_H
#define NEREID_CONFIG_RULES_H

#include "config/config.h"

#include <stdbool.h>

typedef struct rules {
  const Inference__ModelConfig *config;
  config_gpus gpus;
  const source_map *source; // or NULL
  diagnostics *found;
  bool first_only; // findings after the first error are dropped
} rules;

// A short temporary text (a path, a fix); longer texts are cut.
typedef struct phrase {
  char text[240];
} phrase;

phrase say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Reports an error of the field `path` ("": the whole). `fix` is the remedy, or NULL.
void refuse(rules *r, const char *path, const char *fix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void refuse_as(rules *r, error_code code, const char *path, const char *fix, const char *format,
               ...) __attribute__((format(printf, 5, 6)));
void rules_warn(rules *r, const char *path, const char *fix, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Whether no more findings are wanted, so that costly rules can be skipped.
static inline bool rules_over(const rules *r)
{
  return r->found->count >= (r->first_only ? 1 : DIAGNOSTICS_MAX);
}

// Adds a name to `seen`; returns whether it was there already.
bool rules_repeats(rules *r, string_map *seen, const char *name);

static inline bool is_text(const char *text, const char *other)
{
  return strcmp(text, other) == 0;
}

#define PLATFORM_TENSORRT "tensorrt_plan"
#define PLATFORM_ENSEMBLE "ensemble"

// ---- the rules, by subject ----

void rules_dynamic_batching(rules *r);  // validate_scheduling.c
void rules_sequence_batching(rules *r); // validate_sequence.c
void rules_sequence_states(rules *r);   // the same
void rules_ensemble(rules *r);          // validate_ensemble.c
void rules_tensors(rules *r);           // validate_tensors.c
// validate_batch_tensors.c; the names of the model's inputs and outputs
void rules_batch_tensors(rules *r, const string_map *inputs, const string_map *outputs);
void rules_instance_groups(rules *r); // validate_groups.c
void rules_warmup(rules *r);          // validate_warmup.c
void rules_effects(rules *r);         // validate_effects.c: warnings only

#endif
