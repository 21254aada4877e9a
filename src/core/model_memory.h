// SPDX-License-Identifier: Apache-2.0
// How much memory a loaded model version takes: what its load added to this process' heap, or what
// its backend reports (TRITONBACKEND_ModelReportMemoryUsage, …InstanceReportMemoryUsage), such as
// the memory of its processes; the larger counts. Any thread with a reference to the model.
#ifndef NEREID_CORE_MODEL_MEMORY_H
#define NEREID_CORE_MODEL_MEMORY_H

#include "core/memory_report.h"

#include <stdint.h>

typedef struct TRITONBACKEND_Model model;

// Bytes of host memory, as far as known. Reads counters only.
uint64_t model_memory_bytes(model *m);

// Asks the backend for new reports where it can (NEREID_ModelInstanceMeasureMemory), at most once a
// second and for a hundredth of the time. Takes milliseconds for each of its processes.
void model_memory_update(model *m);

// By place; the entries for host memory sum up to model_memory_bytes. Errors: UNAVAILABLE; the
// caller releases *places in any case.
error *model_memory_places(model *m, memory_places *places);

#endif
