// SPDX-License-Identifier: Apache-2.0
// The part of an unload that deals with versions. For load_plan.c; lifecycle.h has the unloads.
#ifndef NEREID_CORE_UNLOAD_H
#define NEREID_CORE_UNLOAD_H

#include "core/model_table.h"

// Retires all versions. The caller has acquired the entry.
void unload_versions(model_entry *entry);

#endif
