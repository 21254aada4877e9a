// SPDX-License-Identifier: Apache-2.0
// The models that a server loads at its start.
#ifndef NEREID_CORE_STARTUP_MODELS_H
#define NEREID_CORE_STARTUP_MODELS_H

#include "base/error.h"
#include "core/server.h"

// Begins the loads of all start-up models and waits for them. INTERNAL "failed to load all models".
error *load_startup_models(server *s);

#endif
