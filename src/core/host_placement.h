// SPDX-License-Identifier: Apache-2.0
// The effect of a host policy (--host-policy) on a thread: its cores, and the NUMA node of its
// memory. Threads and processes that the thread starts inherit both. For load threads and
// instances' threads.
#ifndef NEREID_CORE_HOST_PLACEMENT_H
#define NEREID_CORE_HOST_PLACEMENT_H

#include "base/error.h"
#include "core/server_options.h"

#include <sched.h>
#include <stdbool.h>

#define MAX_HOST_NODES 1024 // the kernel's limit

typedef struct host_placement {
  bool has_cores; // "cpu-cores" is set
  bool has_node;  // "numa-node" is set
  cpu_set_t cores;
  int node;
} host_placement;

// A thread's former place, as far as the placement changes it.
typedef struct host_place {
  cpu_set_t cores;
  unsigned long nodes[MAX_HOST_NODES / (8 * sizeof(unsigned long))];
  int mode; // of the memory policy
} host_place;

// The settings of policy `name`; none when there is no such policy. INVALID_ARG in Triton's words.
error *host_placement_read(const setting_list *settings, const char *name, host_placement *p);

static inline bool host_placement_is_set(const host_placement *p)
{
  return p->has_cores || p->has_node;
}

bool host_placement_equal(const host_placement *a, const host_placement *b);

// Applies the placement to the calling thread; `before` (may be NULL) is for host_placement_leave.
// INTERNAL, beginning with Triton's words, when the kernel refuses; the thread is then as before.
error *host_placement_enter(const host_placement *p, host_place *before);
void host_placement_leave(const host_placement *p, const host_place *before);

// How many of the wanted cores this thread, which has entered, may not run on.
int host_placement_missing_cores(const host_placement *p);

#endif
