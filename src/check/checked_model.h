// SPDX-License-Identifier: Apache-2.0
// One model's directory and configuration under check; mistakes go into the report. Used by the
// check on one thread; needs no server.
#ifndef NEREID_CHECK_CHECKED_MODEL_H
#define NEREID_CHECK_CHECKED_MODEL_H

#include "check/report.h"
#include "config/config.h"
#include "core/server_options.h"
#include "repository/repository.h"

typedef struct checked_model {
  check_report *report;
  const server_options *options;
  const file_policy *links;
  struct gpus *gpus;
  const char *repository, *name; // borrowed
  bool whole;                    // a model's directory, not a configuration alone
  bool loads;                    // it is loaded too, which fails without its backend
  repository_dir dir;
  string_list entries; // of the directory
  char *config_file;   // below it
  bool has_config;     // the file exists
  bool is_read;        // the file could be read, even if it has mistakes
  buffer text;         // of it
  excerpt_source source;
  source_map map;
  diagnostics found;
  Inference__ModelConfig *config; // the part that could be read, with defaults; NULL: nothing
} checked_model;

// Opens the model's directory and reads its configuration. `config_name` as --model-config-name.
// For a configuration alone (`config_file` is not NULL) <repository>/<name> is its directory. The
// caller releases *m, also after an error. Only errors that end the check are returned.
error *checked_model_open(checked_model *m, const char *config_name, const char *config_file);
void checked_model_fini(checked_model *m);

// Adds the findings of the configuration rules to `found`.
error *checked_model_diagnose(checked_model *m);

// Completes the instance groups with the GPUs of this machine. The backend is not asked: a model
// without a group is assumed to be on the CPU, as most are.
error *checked_model_complete_groups(checked_model *m);

// Adds mistakes of directories and files (layout.c).
error *checked_model_look(checked_model *m);

// Adds mistakes of an ensemble beside the models of its steps (steps.c), which are in its own
// repository or in `repositories`.
error *checked_model_look_at_steps(checked_model *m, const string_list *repositories);

// Puts the configuration's findings into the report, in the order of its text.
void checked_model_report(checked_model *m);

// Adds a finding about `file` below the directory ("": the directory); a finding about a field of
// the configuration goes to `found`.
void checked_model_add(checked_model *m, diagnostic_severity severity, const char *file,
                       const char *field, const char *fix, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif
