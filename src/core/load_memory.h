// SPDX-License-Identifier: Apache-2.0
// How many bytes each load adds to this process' heap, also where several run at once. The heap is
// looked at whenever a load begins or ends. Its growth since the last look is divided among the
// loads that ran meanwhile, in proportion to the sizes of their files. Any thread; one lock of its
// own.
#ifndef NEREID_CORE_LOAD_MEMORY_H
#define NEREID_CORE_LOAD_MEMORY_H

#include "base/list.h"

#include <pthread.h>
#include <stdint.h>

typedef struct load_memory {
  pthread_mutex_t lock; // guards everything below
  list running;
  uint64_t weights;      // sum, of the running loads
  size_t frees;          // unloads under way
  int64_t last;          // bytes of the heap at the last look
  int64_t (*heap)(void); // bytes of the heap that are in use
} load_memory;

// One load; on its thread's stack.
typedef struct load_share {
  list_node node;
  uint64_t file_bytes;
  double bytes;
} load_share;

void load_memory_init(load_memory *account, int64_t (*heap)(void));
// The account of this process.
load_memory *load_memory_process(void);

// `file_bytes`: the size of the loaded files; 0: not known.
void load_memory_begin(load_memory *account, load_share *load, uint64_t file_bytes);
// The bytes that the load added; 0 where it freed some. While an unload is under way, which frees
// an unknown amount, the result is at least the size of the files.
uint64_t load_memory_end(load_memory *account, load_share *load);

// An unload begins; at its end it has freed `bytes`, which are not taken from the running loads.
void load_memory_begin_free(load_memory *account);
void load_memory_end_free(load_memory *account, uint64_t bytes);

#endif
