// SPDX-License-Identifier: Apache-2.0
// A thread that writes what others hand in, the access log's and the traces' one. Nobody who hands
// in waits for a disk or a collector: what waits has a bound, and what is lost is counted among the
// server's metrics. The queue itself is the owner's.
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
  // The owner's, set before writer_start. Weights are of what it likes.
  size_t most;      // that may wait
  size_t enough;    // not to wait for more
  uint64_t wait_ns; // how long it waits for more, at most
  // On the thread: takes the owner's queue, with the lock, which it lets go of to write.
  void (*work)(writer *w);

  pthread_t thread;
  pthread_mutex_t lock; // guards the owner's queue and what follows up to the blank line
  pthread_cond_t changed;
  size_t weight;      // of what waits
  uint64_t oldest_ns; // when the first of it came
  bool urgent;        // the owner has something to do at once
  bool stopping, ended;

  TRITONSERVER_MetricFamily *family; // both NULL: the server has no metrics
  TRITONSERVER_Metric *lost;
};

// Starts the thread `name`; `metric` counts what is lost. UNAVAILABLE without a thread: nothing is
// left to release then.
error *writer_start(writer *w, const char *name, const char *metric, const char *description);
// Has what waits written, and joins the thread. False when that takes beyond `deadline_ns`: the
// thread then ends with the process, and the owner must stay, too.
bool writer_stop(writer *w, uint64_t deadline_ns);
// After writer_stop, and when nobody counts any more.
void writer_fini(writer *w);

// With the lock: whether something of that weight may wait, too. It counts from then on.
bool writer_admit(writer *w, size_t weight);
// With the lock: the owner has something to do at once.
void writer_urge(writer *w);

void writer_count_lost(const writer *w, uint64_t count); // any thread

#endif
