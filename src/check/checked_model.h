// SPDX-License-Identifier: Apache-2.0
// One model's directory and configuration on the bench: what is wrong with them goes into the
// report. Used by the check, on one thread; needs no server.
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
  bool loads;                    // it is loaded, too: without its backend it will not
  repository_dir dir;
  string_list entries; // of the directory
  char *config_file;   // below it
  bool has_config;     // it is there
  bool is_read;        // and could be read, mistakes aside
  buffer text;         // of it
  excerpt_source source;
  source_map map;
  diagnostics found;
  Inference__ModelConfig *config; // what could be read, with defaults; NULL: nothing
} checked_model;

// Opens the model's directory and reads its configuration. `config_name` as --model-config-name. Of
// a configuration alone (`config_file` is not NULL) <repository>/<name> is the directory that it
// lies in. The caller releases *m, also after an error; errors are only what ends the check.
error *checked_model_open(checked_model *m, const char *config_name, const char *config_file);
void checked_model_fini(checked_model *m);

// Adds what the rules of configurations say to `found`.
error *checked_model_diagnose(checked_model *m);

// Makes the instance groups, of the GPUs of this machine. Nobody asks the backend, so a model
// without a group is taken to be on the CPU, as most are.
error *checked_model_complete_groups(checked_model *m);

// Adds what is wrong with directories and files (layout.c).
error *checked_model_look(checked_model *m);

// Adds what is wrong with an ensemble beside the models of its steps (steps.c), which are in its
// own repository or one of these.
error *checked_model_look_at_steps(checked_model *m, const string_list *repositories);

// Puts what is found in the configuration into the report, in the order of its text.
void checked_model_report(checked_model *m);

// Adds a finding about `file` below the directory ("": itself); one about a field of the
// configuration goes to `found`.
void checked_model_add(checked_model *m, diagnostic_severity severity, const char *file,
                       const char *field, const char *fix, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

#endif
