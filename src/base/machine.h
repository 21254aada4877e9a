// SPDX-License-Identifier: Apache-2.0
// The share of the machine that this process may use. The functions read files: call them at the
// start, not per request. Thread-safe.
#ifndef NEREID_BASE_MACHINE_H
#define NEREID_BASE_MACHINE_H

#include <stddef.h>

// Processors that this process may use at a time: those of its affinity mask, or fewer if its
// control group, or a group above it, grants less processor time (rounded up); at least 1.
unsigned machine_cpus(void);

// The files that describe control groups.
typedef struct machine_groups {
  const char *membership; // a file as /proc/self/cgroup
  const char *mount;      // a directory as /sys/fs/cgroup
} machine_groups;

// The same from given files, for tests.
unsigned machine_cpus_in(const machine_groups *groups, unsigned affinity);

// Bytes of memory: the machine's, or fewer if its control group, or a group above it, grants less.
size_t machine_memory(void);

// Descriptors that this process may have open (RLIMIT_NOFILE).
size_t machine_descriptors(void);

#endif
