// SPDX-License-Identifier: Apache-2.0
// A framework without a server, called from C as fast as it goes: what its backend is measured
// against. One program for each framework (inprocess_<framework>.c) opens the library and loads the
// model; the rest is here.
#ifndef NEREID_BENCH_INPROCESS_H
#define NEREID_BENCH_INPROCESS_H

#include <stdint.h>

typedef struct inprocess {
  void *(*caller_new)(void); // for one thread
  void (*run)(void *caller); // once; ends the program when it fails
  uint64_t start_ns, opened_ns, loaded_ns;
} inprocess;

// `callers` threads run without a pause for so many seconds. Prints JSON: requests, rps, cpu
// (microseconds of processor for each), p50 and p99 (microseconds), open and load (milliseconds),
// rss (MiB, the most).
void inprocess_measure(const inprocess *self, int callers, int seconds);

_Noreturn void inprocess_fail(const char *what);

#endif
