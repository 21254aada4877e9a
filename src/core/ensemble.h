// SPDX-License-Identifier: Apache-2.0
// Ensembles: models that have a graph of other models in place of instances
// (docs/internals/ensembles.md).
#ifndef NEREID_CORE_ENSEMBLE_H
#define NEREID_CORE_ENSEMBLE_H

#include "core/model.h"

extern const model_runner ensemble_runner;

#endif
