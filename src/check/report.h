// SPDX-License-Identifier: Apache-2.0
// The findings of a check, as JSON (docs/check.md has the schema). Filled by one thread.
#ifndef NEREID_CHECK_REPORT_H
#define NEREID_CHECK_REPORT_H

#include "base/string_list.h"
#include "check/excerpt.h"

typedef struct check_report {
  buffer problems; // JSON objects with commas between them
  size_t models, errors, warnings;
  string_list missing_backends; // each once
} check_report;

// One problem. Texts are borrowed for the call.
typedef struct check_finding {
  diagnostic_severity severity;
  const char *model;      // "": about no model
  const char *file;       // or directory
  source_place place;     // line 0: the file as a whole
  excerpt_source *source; // its text, or NULL
  const char *field;      // path of the field, or NULL
  const char *message;    // the first line is the message, the rest a note
  const char *fix;        // or NULL
} check_finding;

void check_report_add(check_report *report, const check_finding *finding);

void check_report_add_missing_backend(check_report *report, const char *name);

// Moves all of it into `out`, as one JSON object.
void check_report_print(check_report *report, buffer *out);
void check_report_fini(check_report *report);

#endif
