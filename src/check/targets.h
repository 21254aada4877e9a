// SPDX-License-Identifier: Apache-2.0
// The targets of a check: the models of repositories, one model, or a configuration alone.
#ifndef NEREID_CHECK_TARGETS_H
#define NEREID_CHECK_TARGETS_H

#include "core/server_options.h"
#include "repository/repository.h"

// One model or configuration. Texts are owned.
typedef struct check_target {
  char *repository;
  char *name;
  char *config_name; // as --model-config-name
  char *config_file; // a configuration alone, in <repository>/<name>; or NULL
} check_target;

typedef struct check_targets {
  check_target *items;
  size_t count;
  string_list repositories; // to be checked as a whole
} check_targets;

// Classifies the paths; without any the options' repositories are the targets. INVALID_ARG for a
// path that is none of the three. The caller releases *targets, also after an error.
error *check_targets_init(check_targets *targets, const server_options *options,
                          const char *const *paths, size_t count);
void check_targets_fini(check_targets *targets);

#endif
