// SPDX-License-Identifier: Apache-2.0
// A model in a process of its own (docs/isolation.md): whether it gets one, and the description
// from which that process loads the same. Load threads.
#ifndef NEREID_CORE_ISOLATION_H
#define NEREID_CORE_ISOLATION_H

#include "base/buffer.h"
#include "base/error.h"
#include "config/config.h"
#include "core/server_options.h"

#include <stdbool.h>

#define ISOLATION_BACKEND "isolated" // the backend of such models

typedef struct TRITONBACKEND_Model model;

// A backend that was found: the fields of backend_location and its settings, each owned or NULL.
typedef struct backend_choice {
  char *name;
  char *library;
  char *dir;
  char *key;
  char *settings; // JSON: TRITONBACKEND_BackendConfig
} backend_choice;

void backend_choice_fini(backend_choice *choice);

// Whether the parameter `isolate`, or else the setting of that name for the model's backend or for
// all backends, asks for a process. INVALID_ARG for an invalid value.
error *isolation_is_wanted(const server_options *options, const char *name,
                           const Inference__ModelConfig *config, bool *wanted);

// *wanted: the model is wanted in a process of its own. Clears it for models with states or
// iterative sequences, which cannot have one; INVALID_ARG if the model's own parameter asks for it.
error *isolation_check(const char *name, const Inference__ModelConfig *config, bool *wanted);

// All that another process needs to load `m` as this one would, as JSON (host/description.h reads
// it). INVALID_ARG for a model without a process of its own.
error *isolation_describe(const model *m, buffer *json);

#endif
