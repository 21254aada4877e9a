// How much of the machine this process may use.
#ifndef NEREID_BASE_CPUS_H
#define NEREID_BASE_CPUS_H

// Processors that this process may run on at a time: those of its affinity mask, or fewer where a
// control group (v2, cpu.max) grants less time than that, rounded up; at least 1. Reads files:
// call it at the start, not per request. Thread-safe.
unsigned cpus_available(void);

#endif
