// SPDX-License-Identifier: Apache-2.0
// A thread that writes what other threads hand in: the access log's and the traces'. They never
// wait for a disk or a collector, so the queue is bounded, and losses are counted in a metric. The
// owner has the queue itself.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_WRITER_H
#define NEREID_FRONTEND_COMMON_OBSERVE_WRITER_H

#include "base/error.h"
#include "triton/core/tritonserver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct writer writer;

struct writer {
  // --- The owner sets these before writer_start. Weights are in the owner's unit.
  size_t most;      // weight that may wait
  size_t enough;    // weight that is written at once
  uint64_t wait_ns; // how long a smaller weight waits for more, at most
  // Runs on the thread with the lock held: takes the owner's queue, and releases the lock while
  // writing.
  void (*work)(writer *w);

  pthread_t thread;
  pthread_mutex_t lock; // guards the owner's queue and the rest, up to the blank line
  pthread_cond_t changed;
  size_t weight;      // of the whole queue
  uint64_t oldest_ns; // when the oldest entry came
  bool urgent;        // the owner has something to do at once
  bool stopping, ended;

  TRITONSERVER_MetricFamily *family; // both NULL: the server has no metrics
  TRITONSERVER_Metric *lost;
};

// Starts the thread `name`; `metric` counts losses. UNAVAILABLE without a thread; then nothing is
// left to release.
error *writer_start(writer *w, const char *name, const char *metric, const char *description);
// Writes what waits and joins the thread. False after `deadline_ns`: the thread ends with the
// process, and the owner must stay alive.
bool writer_stop(writer *w, uint64_t deadline_ns);
// After writer_stop, when no thread counts losses any more.
void writer_fini(writer *w);

// With the lock held: may an entry of that weight wait, too? If so, its weight is counted.
bool writer_admit(writer *w, size_t weight);
// With the lock held: runs `work` at once.
void writer_urge(writer *w);

void writer_count_lost(const writer *w, uint64_t count); // any thread

#endif
