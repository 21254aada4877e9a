// SPDX-License-Identifier: Apache-2.0
// Steps that continue a moment later on the timekeeper's thread, because a callback must not run
// here, or would run inside another one.
#ifndef NEREID_CORE_ENSEMBLE_LATE_H
#define NEREID_CORE_ENSEMBLE_LATE_H

#include "core/ensemble_parts.h"

void ensemble_late_init(ensemble_late *late, timekeeper *keeper);
void ensemble_late_fini(ensemble_late *late); // waits for a step under way

// Runs s->over soon.
void ensemble_late_add(ensemble_late *late, ensemble_step *s);

#endif
