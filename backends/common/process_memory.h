// SPDX-License-Identifier: Apache-2.0
// How much memory a process and all its descendants use. Any thread.
#ifndef NEREID_PROCESS_MEMORY_H
#define NEREID_PROCESS_MEMORY_H

#include "triton/core/tritonbackend.h"

#include <stdint.h>
#include <sys/types.h>

// Bytes. Memory shared with other processes counts in parts (PSS); where PSS may not be read, all
// resident memory counts. 0 when the process is gone. Takes up to a millisecond per process.
uint64_t process_memory(pid_t process);

// Reports to the server that the instance's processes use so many bytes of host memory.
void process_memory_report(TRITONBACKEND_ModelInstance *instance, uint64_t bytes);

#endif
