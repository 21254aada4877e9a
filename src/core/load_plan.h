// SPDX-License-Identifier: Apache-2.0
// The plan of a load: the versions of a model that shall be served, and those that must be loaded
// for that. On the thread that begins the load and has acquired the entry.
#ifndef NEREID_CORE_LOAD_PLAN_H
#define NEREID_CORE_LOAD_PLAN_H

#include "core/load_operation.h"

// Reads the directory and fills in the operation up to its jobs. *nothing: nothing has changed, or
// an ensemble waits for its steps' models (wish->steps). Errors: as lifecycle_begin_load; those
// about the model are recorded in its entry.
error *load_plan(load_operation *o, const load_wish *wish, bool *nothing);

#endif
