// SPDX-License-Identifier: Apache-2.0
// Reads the description of a model that core/isolation.c wrote, and prepares loading it. Once, at
// the process's start, on its main thread.
#ifndef NEREID_HOST_DESCRIPTION_H
#define NEREID_HOST_DESCRIPTION_H

#include "core/model.h"

#include <jansson.h>

typedef struct host_description {
  json_t *json;      // owned; texts are borrowed from it
  file_policy links; // for the model's files
  server_options options;
  backend_choice backend; // borrowed texts
} host_description;

// Call host_description_fini even after an error.
error *host_description_read(host_description *d, const char *text);
void host_description_fini(host_description *d);

// The arguments for model_load, with `config` as the model's configuration. The caller handles
// config_owned as for model_load.
error *host_description_source(const host_description *d, const char *config, model_source *source);

#endif
