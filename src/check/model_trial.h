// SPDX-License-Identifier: Apache-2.0
// Models loaded to see whether they load: one after another, in a server of their own that nobody
// can reach. Blocks.
#ifndef NEREID_CHECK_MODEL_TRIAL_H
#define NEREID_CHECK_MODEL_TRIAL_H

#include "core/server.h"

typedef struct model_trial {
  server *server; // NULL: not begun
} model_trial;

// Starts a server of these repositories that loads what it is told.
error *model_trial_begin(model_trial *trial, const server_options *options,
                         const string_list *repositories);

// Loads the model and unloads it again. The error is the load's.
error *model_trial_load(model_trial *trial, const char *name);

// Loads the model and gives a copy of its configuration as the backend has completed it.
error *model_trial_config(model_trial *trial, const char *name, Inference__ModelConfig **config);

void model_trial_end(model_trial *trial); // may not have begun

#endif
