// How many CPUs this process may use.
#ifndef NEREID_BACKEND_CPU_H
#define NEREID_BACKEND_CPU_H

// The smaller of the CPUs in the affinity mask and the CPU quota of the control group and its
// parents (v2 and v1), rounded up; at least 1. Frameworks that ask the kernel for the number of
// cores start far too many threads in a container with a quota.
int backend_cpu_count(void);

// The same from given places, for tests: `affinity` CPUs, /proc/self/cgroup's text, the directory
// where control groups are mounted.
int backend_cpu_count_from(int affinity, const char *membership, const char *mount);

#endif
