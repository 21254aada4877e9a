// SPDX-License-Identifier: Apache-2.0
// Findings about a configuration, mistakes and settings without effect: a list that the recovering
// reader (text_read.c) and the rules (validate.c, field_effects.c) fill and `nereid check` prints.
// One thread at a time.
#ifndef NEREID_CONFIG_DIAGNOSTICS_H
#define NEREID_CONFIG_DIAGNOSTICS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

// A place in a text file.
typedef struct source_place {
  unsigned line;   // from 1; 0: not known
  unsigned column; // from 1; a tab goes to the next multiple of 8
  unsigned length; // bytes, at least 1 where the line is known
} source_place;

typedef enum diagnostic_severity {
  DIAGNOSTIC_ERROR,   // a model with it is not loaded
  DIAGNOSTIC_WARNING, // a model with it is loaded, but a setting may not do what it seems to
} diagnostic_severity;

typedef struct diagnostic {
  diagnostic_severity severity;
  error_code code; // of an error
  char *message;   // one line; Triton's words where Triton has the rule
  char *path;      // of the field: "input[0].dims[1]", parameters["key"]; "" for the whole
  source_place place;
  char *fix; // the remedy, a sentence; or NULL
} diagnostic;

typedef struct diagnostics {
  diagnostic *items; // in the order in which they were found
  size_t count;
  size_t capacity;
  size_t errors;
  size_t bytes;    // of the texts
  size_t left_out; // found after the list was full (DIAGNOSTICS_MAX, DIAGNOSTICS_MAX_BYTES)
  bool failed;     // memory ran short: the list is incomplete
} diagnostics;

#define DIAGNOSTICS_EMPTY     ((diagnostics){0})
#define DIAGNOSTICS_MAX       (1000)
#define DIAGNOSTICS_MAX_BYTES ((size_t)16 << 20) // a model may have a very long name

void diagnostics_fini(diagnostics *list);

// Whether further findings are only counted.
static inline bool diagnostics_are_full(const diagnostics *list)
{
  return list->count == DIAGNOSTICS_MAX || list->bytes >= DIAGNOSTICS_MAX_BYTES;
}

// Adds copies of what `d` points to.
void diagnostics_add(diagnostics *list, const diagnostic *d);

// Adds an error reported elsewhere, of which only the text is known.
void diagnostics_add_error(diagnostics *list, error *e_owned, const char *path, source_place place);

// Sorts by line and column; findings without a place come last.
void diagnostics_sort(diagnostics *list);

// The first error as a load reports it, or NULL where the list has none. The text's first line is
// the message; a second one gives the place (if `file_name` is not NULL and the place is known),
// the field and the remedy, as far as known. "Out of memory" if the list failed.
error *diagnostics_first_error(const diagnostics *list, const char *file_name);

static inline void cleanup_diagnostics(diagnostics *list)
{
  diagnostics_fini(list);
}
#define AUTO_DIAGNOSTICS __attribute__((cleanup(cleanup_diagnostics)))

#endif
