// SPDX-License-Identifier: Apache-2.0
// What a host policy (--host-policy) makes of a thread: the cores that it runs on and the NUMA node
// that it takes memory from. A thread that enters hands both on to the threads and processes that
// it starts. Load threads and instances' threads.
#ifndef NEREID_CORE_HOST_PLACEMENT_H
#define NEREID_CORE_HOST_PLACEMENT_H

#include "base/error.h"
#include "core/server_options.h"

#include <sched.h>
#include <stdbool.h>

#define MAX_HOST_NODES 1024 // of a machine, as the kernel has them at most

typedef struct host_placement {
  bool has_cores; // "cpu-cores" is set
  bool has_node;  // "numa-node" is set
  cpu_set_t cores;
  int node;
} host_placement;

// What a thread had before: of those two that were set.
typedef struct host_place {
  cpu_set_t cores;
  unsigned long nodes[MAX_HOST_NODES / (8 * sizeof(unsigned long))];
  int mode; // of memory
} host_place;

// The settings of policy `name`; none when there is no such policy. INVALID_ARG in Triton's words.
error *host_placement_read(const setting_list *settings, const char *name, host_placement *p);

static inline bool host_placement_is_set(const host_placement *p)
{
  return p->has_cores || p->has_node;
}

bool host_placement_equal(const host_placement *a, const host_placement *b);

// Puts the calling thread there; `before` (which may be NULL) is for host_placement_leave.
// INTERNAL, beginning with Triton's words, when the kernel refuses: then the thread is where it
// was.
error *host_placement_enter(const host_placement *p, host_place *before);
void host_placement_leave(const host_placement *p, const host_place *before);

// Of those wanted, how many cores this thread, which has entered, may not run on.
int host_placement_missing_cores(const host_placement *p);

#endif
