// SPDX-License-Identifier: Apache-2.0
// What the signals that come while the server stops mean. timeout(1), launchers that signal a
// process and its group, supervisors, and a preStop hook followed by the kubelet send SIGTERM twice
// and mean it once; who presses Ctrl-C again does not want to wait. Used by main only.
#ifndef NEREID_DAEMON_STOP_SIGNALS_H
#define NEREID_DAEMON_STOP_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

// From this time after the first signal on, each further one ends the process at once.
#define STOP_AGAIN_SECONDS 10

typedef struct stop_signals {
  uint64_t first_ns;     // when the stop began
  uint64_t interrupt_ns; // when the last SIGINT came
  bool interrupted;      // there was one
  bool told;             // that a signal was ignored is in the log
} stop_signals;

// The stop began with this signal (or another number: a cause that is no signal).
stop_signals stop_signals_first(int number, uint64_t now_ns);

// Another signal has come: does it end the process at once?
bool stop_signals_again(stop_signals *s, int number, uint64_t now_ns);

// True once: the first signal that is ignored is worth a line.
bool stop_signals_tell(stop_signals *s);

#endif
