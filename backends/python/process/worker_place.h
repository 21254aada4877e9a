// Where a thread runs and takes memory from: its cores and its memory policy. A worker is to be
// where the thread was that made its instance, which the server has put where the instance's host
// policy says; but processes are started by the supervisor's thread, and again when they have
// ended.
#ifndef NEREID_PYTHON_WORKER_PLACE_H
#define NEREID_PYTHON_WORKER_PLACE_H

#include <sched.h>
#include <stdbool.h>

enum {
  MAX_PLACE_NODES = 1024 // of a machine, as the kernel has them at most
};

typedef struct worker_place {
  bool known; // false: anywhere
  cpu_set_t cores;
  int mode; // of memory
  unsigned long nodes[MAX_PLACE_NODES / (8 * sizeof(unsigned long))];
} worker_place;

// The calling thread's.
void worker_place_get(worker_place *place);

// Places that are not known are equal to all.
bool worker_place_equal(const worker_place *a, const worker_place *b);

// Puts the calling thread there, and so what it starts; does nothing where it is there already.
// Gives an errno.
int worker_place_enter(const worker_place *place);

#endif
