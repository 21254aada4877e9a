// SPDX-License-Identifier: Apache-2.0
// Loads models to see whether they load: one after another, in a separate server without listeners.
// Blocks.
#ifndef NEREID_CHECK_MODEL_TRIAL_H
#define NEREID_CHECK_MODEL_TRIAL_H

#include "core/server.h"

typedef struct model_trial {
  server *server; // NULL: not started
} model_trial;

// Starts a server with these repositories that loads models on request.
error *model_trial_begin(model_trial *trial, const server_options *options,
                         const string_list *repositories);

// Loads the model and unloads it again. The error is the load's.
error *model_trial_load(model_trial *trial, const char *name);

// Loads the model and returns a copy of its configuration as the backend completed it.
error *model_trial_config(model_trial *trial, const char *name, Inference__ModelConfig **config);

void model_trial_end(model_trial *trial); // also if it was not started

#endif
