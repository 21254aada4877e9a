// SPDX-License-Identifier: Apache-2.0
// How much memory a process and all that it has started take. Any thread.
#ifndef NEREID_PROCESS_MEMORY_H
#define NEREID_PROCESS_MEMORY_H

#include "triton/core/tritonbackend.h"

#include <stdint.h>
#include <sys/types.h>

// Bytes, what is shared with other processes in parts (PSS); where that may not be read, all that
// is resident. 0 when the process is gone. Takes up to a millisecond for each of them.
uint64_t process_memory(pid_t process);

// Tells the server that the instance's processes take so many bytes: all of it is the host's.
void process_memory_report(TRITONBACKEND_ModelInstance *instance, uint64_t bytes);

#endif
