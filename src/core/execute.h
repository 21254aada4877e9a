// SPDX-License-Identifier: Apache-2.0
// Executes one batch on one instance: cancelled requests are answered, the rest goes to the
// backend. Called by the instance's thread, or by a thread that runs the idle instance in its
// place.
#ifndef NEREID_CORE_EXECUTE_H
#define NEREID_CORE_EXECUTE_H

#include "core/instance.h"

// Executes the first `count` of i->items, and what it begins ahead meanwhile, to their end.
void execute(instance *i, size_t count);

// The same, but begins nothing ahead: the instance warms up, and queued requests are for instances
// that are ready.
void execute_alone(instance *i, size_t count);

// Begins the first of i->items alone and waits a moment for its end. False: it has not ended, and
// the instance's thread must call execute_rest.
bool execute_briefly(instance *i);

// Ends the executions that were begun, and those that are begun ahead meanwhile. The instance's
// thread.
void execute_rest(instance *i);

#endif
