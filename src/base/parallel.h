// SPDX-License-Identifier: Apache-2.0
// Work in parts that may run at once. The caller does not know the threads that do it. NULL: the
// caller's own thread does all parts.
#ifndef NEREID_BASE_PARALLEL_H
#define NEREID_BASE_PARALLEL_H

#include <stddef.h>

// Does part `index`. Any thread, at the same time as other parts.
typedef void parallel_part(void *context, size_t index);

typedef struct parallel {
  // Does the parts 0 to count - 1, with the caller's thread among others; returns when all are
  // done.
  void (*run)(void *pool, size_t count, parallel_part *part, void *context);
  void *pool;
} parallel;

static inline void parallel_run(const parallel *p, size_t count, parallel_part *part, void *context)
{
  if (p != NULL)
    p->run(p->pool, count, part, context);
  else
    for (size_t i = 0; i < count; i++)
      part(context, i);
}

#endif
