// How much of the machine this process may use. Reads files: call these at the start, not per
// request. Thread-safe.
#ifndef NEREID_BASE_MACHINE_H
#define NEREID_BASE_MACHINE_H

#include <stddef.h>

// Processors that this process may run on at a time: those of its affinity mask, or fewer where its
// control group grants less time than that, rounded up; at least 1.
unsigned machine_cpus(void);

// Bytes of memory: the machine's, or fewer where its control group grants less.
size_t machine_memory(void);

// Descriptors that this process may have open (RLIMIT_NOFILE).
size_t machine_descriptors(void);

#endif
