// SPDX-License-Identifier: Apache-2.0
// How much of the machine this process may use. Reads files: call these at the start, not per
// request. Thread-safe.
#ifndef NEREID_BASE_MACHINE_H
#define NEREID_BASE_MACHINE_H

#include <stddef.h>

// Processors that this process may run on at a time: those of its affinity mask, or fewer where its
// control group, or one above it, grants less time than that, rounded up; at least 1.
unsigned machine_cpus(void);

// Where control groups are described.
typedef struct machine_groups {
  const char *membership; // a file as /proc/self/cgroup
  const char *mount;      // a directory as /sys/fs/cgroup
} machine_groups;

// The same from given places, for tests.
unsigned machine_cpus_in(const machine_groups *groups, unsigned affinity);

// Bytes of memory: the machine's, or fewer where its control group, or one above it, grants less.
size_t machine_memory(void);

// Descriptors that this process may have open (RLIMIT_NOFILE).
size_t machine_descriptors(void);

#endif
