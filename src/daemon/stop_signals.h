// SPDX-License-Identifier: Apache-2.0
// Decides what a signal means while the server stops. timeout(1), launchers that signal a process
// and its group, supervisors, and a preStop hook followed by the kubelet all send SIGTERM twice and
// mean it once. A second Ctrl-C means that the user does not want to wait. Main thread.
#ifndef NEREID_DAEMON_STOP_SIGNALS_H
#define NEREID_DAEMON_STOP_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>

// From this time after the first signal on, each further signal ends the process at once.
#define STOP_AGAIN_SECONDS 10

typedef struct stop_signals {
  uint64_t first_ns;     // when the stop began
  uint64_t interrupt_ns; // when the last SIGINT came
  bool interrupted;      // there was one
  bool told;             // the log already says that a signal was ignored
} stop_signals;

// Begins a stop. `number`: the signal; another number stands for a cause that is not a signal.
stop_signals stop_signals_first(int number, uint64_t now_ns);

// Another signal has come. Returns whether it ends the process at once.
bool stop_signals_again(stop_signals *s, int number, uint64_t now_ns);

// True for the first ignored signal only, which is logged.
bool stop_signals_tell(stop_signals *s);

#endif
