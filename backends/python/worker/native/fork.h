// SPDX-License-Identifier: Apache-2.0
// Handles processes that a model forks. Parent and host reuse shared memory, which would change
// arrays in the child, and a write in the child would change the parent's arrays. Tensors and
// arrays in shared memory are therefore tracked, and a forked child gets copies at the same
// addresses before the parent continues.
#ifndef NEREID_FORK_H
#define NEREID_FORK_H

#include <stddef.h>

// One piece of shared memory that Python objects use. The fields belong to fork.c.
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
