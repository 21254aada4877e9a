// Where a thread runs and takes memory from: its cores and its memory policy. A worker is to be
// where the thread was that made its instance, which the server has put where the instance's host
// policy says; but processes are started by the supervisor's thread, and again when they have
// ended.
#ifndef NEREID_PYTHON_PLACEMENT_H
#define NEREID_PYTHON_PLACEMENT_H

#include <sched.h>
#include <stdbool.h>

enum {
  MAX_PLACEMENT_NODES = 1024 // of a machine, as the kernel has them at most
};

typedef struct worker_placement {
  bool known; // false: anywhere
  cpu_set_t cores;
  int mode; // of memory
  unsigned long nodes[MAX_PLACEMENT_NODES / (8 * sizeof(unsigned long))];
} worker_placement;

// The calling thread's.
void worker_placement_get(worker_placement *placement);

// A placement that is not known is equal to all.
bool worker_placement_equal(const worker_placement *a, const worker_placement *b);

// Puts the calling thread there, and so what it starts; does nothing where it is there already.
// Gives an errno.
int worker_placement_enter(const worker_placement *placement);

#endif
