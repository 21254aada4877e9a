// SPDX-License-Identifier: Apache-2.0
// Whether an ensemble can be served with the models that are loaded: its steps' models are there in
// the versions that it wants, and their tensors fit (config_validate_steps). On threads that load.
#ifndef NEREID_CORE_ENSEMBLE_RULES_H
#define NEREID_CORE_ENSEMBLE_RULES_H

#include "core/model_table.h"

// The entry of the model that a step of `ensemble` names: the one of the ensemble's own repository,
// else the only one of that name. NULL: none is loaded or known to have failed, or there are
// several.
model_entry *ensemble_step_entry(model_table *models, const model_entry *ensemble,
                                 const char *model_name);

// Whether the steps of `entry`, which has a record, lead back to it.
bool ensemble_is_circular(model_table *models, model_entry *entry);

// Checks the ensemble and completes its configuration: the namespace of each step's model, and
// whether the ensemble is decoupled. INVALID_ARG in Triton's words.
error *ensemble_check(model_table *models, model_entry *entry, Inference__ModelConfig *config,
                      const source_map *places);

#endif
