// SPDX-License-Identifier: Apache-2.0
// Reads what core/isolation.c wrote of a model, and loads the model by it. Once, at the process's
// start, on its main thread.
#ifndef NEREID_HOST_DESCRIPTION_H
#define NEREID_HOST_DESCRIPTION_H

#include "core/model.h"

#include <jansson.h>

typedef struct host_description {
  json_t *json;      // owned; texts are borrowed from it
  file_policy links; // of the model's files
  server_options options;
  backend_choice backend; // borrowed texts
} host_description;

// The caller calls host_description_fini, also after an error.
error *host_description_read(host_description *self, const char *text);
void host_description_fini(host_description *self);

// What model_load is given, with `config` as the model's configuration; config_owned is the
// caller's as for model_load.
error *host_description_source(const host_description *self, const char *config,
                               model_source *source);

#endif
