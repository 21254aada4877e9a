// SPDX-License-Identifier: Apache-2.0
// Whether an ensemble can be served with the models that there are: its steps' models are loaded,
// in the versions that it wants, and their tensors fit (config_validate_steps). On threads that
// load.
#ifndef NEREID_CORE_ENSEMBLE_RULES_H
#define NEREID_CORE_ENSEMBLE_RULES_H

#include "core/model_table.h"

// The entry of the model that a step of `ensemble` names: with namespacing the one of the
// ensemble's own repository, else the only one. NULL: none is loaded or known to have failed, or it
// is not clear which.
model_entry *ensemble_step_entry(model_table *models, const model_entry *ensemble,
                                 const char *model_name);

// Whether the steps of `entry`, which has a record, lead back to it.
bool ensemble_is_circular(model_table *models, model_entry *entry);

// Checks the ensemble and completes its configuration: in which namespace each step's model is, and
// whether it is decoupled. INVALID_ARG in Triton's words.
error *ensemble_check(model_table *models, model_entry *entry, Inference__ModelConfig *config,
                      const source_map *places);

#endif
