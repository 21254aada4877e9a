// SPDX-License-Identifier: Apache-2.0
// The record of an ensemble; see ensemble_record.h.
#include "core/ensemble_record.h"

#include <stdlib.h>
#include <string.h>

bool repository_model_copy(const repository_model *from, repository_model *to)
{
  *to = (repository_model){.name = strdup(from->name),
                           .repository = strdup(from->repository),
                           .folder = strdup(from->folder),
                           .mapped = from->mapped,
                           .duplicate = from->duplicate};
  if (to->name != NULL && to->repository != NULL && to->folder != NULL) {
    to->bare = to->name + strlen(from->name) - strlen(from->bare);
    return true;
  }
  repository_model_fini(to);
  *to = (repository_model){0};
  return false;
}

ensemble_record *ensemble_record_new(const repository_model *found, upload *files,
                                     const Inference__ModelConfig *config)
{
  ensemble_record *record = calloc(1, sizeof(*record));
  if (record == NULL)
    return NULL;
  error *e = config_copy(config, &record->config);
  if (e == NULL && repository_model_copy(found, &record->found)) {
    record->files = upload_ref(files);
    return record;
  }
  error_free(e);
  config_free(record->config);
  free(record);
  return NULL;
}

void ensemble_record_free(ensemble_record *record)
{
  if (record == NULL)
    return;
  repository_model_fini(&record->found);
  upload_unref(record->files);
  config_free(record->config);
  free(record);
}

void ensemble_add_steps(const Inference__ModelConfig *config, string_list *names)
{
  for (size_t i = 0; i < config->ensemble_scheduling->n_step; i++) {
    const char *name = config->ensemble_scheduling->step[i]->model_name;
    if (!string_list_contains(names, name))
      string_list_add(names, name);
  }
}

bool ensemble_has_step(const ensemble_record *record, const char *model)
{
  const Inference__ModelEnsembling *ensemble =
      record != NULL ? record->config->ensemble_scheduling : NULL;
  for (size_t i = 0; ensemble != NULL && i < ensemble->n_step; i++)
    if (strcmp(ensemble->step[i]->model_name, model) == 0)
      return true;
  return false;
}
