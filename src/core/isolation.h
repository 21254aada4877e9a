// SPDX-License-Identifier: Apache-2.0
// A model in a process of its own (docs/isolation.md): whether it is to be, and what its process is
// told so that it loads the same. Load threads.
#ifndef NEREID_CORE_ISOLATION_H
#define NEREID_CORE_ISOLATION_H

#include "base/buffer.h"
#include "base/error.h"
#include "config/config.h"
#include "core/server_options.h"

#include <stdbool.h>

#define ISOLATION_BACKEND "isolated" // that serves such models

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

// What the parameter `isolate` says, or else the setting of that name for the model's backend, or
// for all. INVALID_ARG for a value that is none.
error *isolation_is_wanted(const server_options *options, const char *name,
                           const Inference__ModelConfig *config, bool *wanted);

// Of one that is wanted in a process of its own: whether it can be, which models with states or
// iterative sequences cannot. INVALID_ARG where its own parameter asks for it.
error *isolation_check(const char *name, const Inference__ModelConfig *config, bool *wanted);

// All that another process needs to load `m` as it would be loaded here, as JSON
// (host/description.h reads it); INVALID_ARG for one that is not to be in a process of its own.
error *isolation_describe(const model *m, buffer *json);

#endif
