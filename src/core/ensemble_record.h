// SPDX-License-Identifier: Apache-2.0
// What a server keeps of an ensemble that it is to serve, whether it can at the moment or not:
// enough to check and load it again when a model of its steps comes, changes or goes. Of a model's
// entry (model_table.h), whose lock guards it.
#ifndef NEREID_CORE_ENSEMBLE_RECORD_H
#define NEREID_CORE_ENSEMBLE_RECORD_H

#include "base/string_list.h"
#include "config/config.h"
#include "repository/repository.h"
#include "repository/upload.h"

#include <stdbool.h>

typedef struct ensemble_record {
  repository_model found;
  upload *files; // counted: what came with the request in place of a repository's; or NULL
  Inference__ModelConfig *config; // owned: as read and with defaults
  file_stamp stamp;               // of what was read; 0: it came with the request
} ensemble_record;

// Copies; NULL when memory is short.
ensemble_record *ensemble_record_new(const repository_model *found, upload *files,
                                     const Inference__ModelConfig *config);
void ensemble_record_free(ensemble_record *record); // NULL is allowed

// Adds the names of the steps' models, each once. A shortage of memory is the list's.
void ensemble_add_steps(const Inference__ModelConfig *config, string_list *names);
// NULL is none.
bool ensemble_has_step(const ensemble_record *record, const char *model);

// A copy that the caller owns, for repository_model_fini. False when memory is short.
bool repository_model_copy(const repository_model *from, repository_model *to);

#endif
