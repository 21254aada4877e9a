// SPDX-License-Identifier: Apache-2.0
// How much memory a loaded model version takes: what its load added to this process' heap, or what
// its backend reports (TRITONBACKEND_ModelReportMemoryUsage, …InstanceReportMemoryUsage), such as
// that of its processes, whichever is more. Any thread with a reference to the model.
#ifndef NEREID_CORE_MODEL_MEMORY_H
#define NEREID_CORE_MODEL_MEMORY_H

#include "core/memory_report.h"

#include <stdint.h>

typedef struct TRITONBACKEND_Model model;

// Bytes of host memory, as far as they are known; reads counters and asks nobody.
uint64_t model_memory_bytes(model *m);

// Has the backend report anew where it can (NEREID_ModelInstanceMeasureMemory), at most once a
// second and a hundredth of the time: milliseconds for each of its processes, and else nothing.
void model_memory_update(model *m);

// By place, with at least one for the host's memory, whose sum is model_memory_bytes. Errors:
// UNAVAILABLE; *places is released by the caller in any case.
error *model_memory_places(model *m, memory_places *places);

#endif
