// SPDX-License-Identifier: Apache-2.0
// One batch on one instance: what was cancelled is answered, the rest goes to the backend. Called
// by the instance's thread, or by a thread that runs the idle instance in its place.
#ifndef NEREID_CORE_EXECUTE_H
#define NEREID_CORE_EXECUTE_H

#include "core/instance.h"

// Executes the first `count` of i->items, to their end, and what it begins ahead of that meanwhile.
void execute(instance *i, size_t count);

// The same without anything ahead: what waits is for instances that are ready, and this one warms
// up.
void execute_alone(instance *i, size_t count);

// Begins the first of i->items alone and waits for its end for a moment. False: it has not ended,
// and execute_rest is due on the instance's thread.
bool execute_briefly(instance *i);

// Ends what was begun, and executions that are begun ahead of that meanwhile. The instance's
// thread.
void execute_rest(instance *i);

#endif
