// SPDX-License-Identifier: Apache-2.0
// The record of an ensemble that a server shall serve, kept even while it cannot: enough to check
// and load it again when a model of its steps comes, changes or goes. Part of a model's entry
// (model_table.h), whose lock guards it.
#ifndef NEREID_CORE_ENSEMBLE_RECORD_H
#define NEREID_CORE_ENSEMBLE_RECORD_H

#include "base/string_list.h"
#include "config/config.h"
#include "repository/repository.h"
#include "repository/upload.h"

#include <stdbool.h>

typedef struct ensemble_record {
  repository_model found;
  upload *files; // counted: files that a request sent instead of a repository's; or NULL
  Inference__ModelConfig *config; // owned: as read and with defaults
  file_stamp stamp;               // of the files that were read; 0: they came with the request
} ensemble_record;

// Copies; NULL when memory is short.
ensemble_record *ensemble_record_new(const repository_model *found, upload *files,
                                     const Inference__ModelConfig *config);
void ensemble_record_free(ensemble_record *record); // NULL is allowed

// Adds the names of the steps' models, each once. names->failed: memory is short.
void ensemble_add_steps(const Inference__ModelConfig *config, string_list *names);
// False for NULL.
bool ensemble_has_step(const ensemble_record *record, const char *model);

// A copy that the caller owns, for repository_model_fini. False when memory is short.
bool repository_model_copy(const repository_model *from, repository_model *to);

#endif
