// SPDX-License-Identifier: Apache-2.0
// The plan of a load: which versions of a model shall be served, and which of them are to be loaded
// for that. On the thread that begins the load, which has acquired the entry.
#ifndef NEREID_CORE_LOAD_PLAN_H
#define NEREID_CORE_LOAD_PLAN_H

#include "core/load_operation.h"

// Reads the directory and fills in the operation up to its jobs. *nothing: it serves as its
// directory says, or it is an ensemble that waits for its steps' models (wish->steps). Errors: as
// lifecycle_begin_load; what they say of the model is recorded.
error *load_plan(load_operation *o, const load_wish *wish, bool *nothing);

#endif
