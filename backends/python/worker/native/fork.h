// SPDX-License-Identifier: Apache-2.0
// Processes that a model forks. Arrays on shared memory would change under the child when the
// parent, or the host, uses the memory anew, and the parent's under the child's writing. So tensors
// and arrays that lie there are tracked, and a forked child gets copies of its own at the same
// addresses, before the parent goes on.
#ifndef NEREID_FORK_H
#define NEREID_FORK_H

#include <stddef.h>

// One piece of shared memory that Python objects look at. Its fields are fork.c's.
typedef struct fork_piece {
  struct fork_piece *next;
  struct fork_piece *previous;
  void *address;
  size_t size;
} fork_piece;

// Any thread, with or without the GIL.
void fork_track(fork_piece *piece, void *address, size_t size);
void fork_untrack(fork_piece *piece);

#endif
