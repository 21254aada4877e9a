// SPDX-License-Identifier: Apache-2.0
// Counts the signals of a stop. Main thread.
#include "daemon/stop_signals.h"

#include <signal.h>

#define NS_PER_SECOND UINT64_C(1000000000)
// Ctrl-C reaches a launcher and the server, and the launcher passes it on. A SIGINT within this
// time after another is therefore the same one.
#define SAME_INTERRUPT_NS (NS_PER_SECOND / 4)

stop_signals stop_signals_first(int number, uint64_t now_ns)
{
  return (stop_signals){
      .first_ns = now_ns, .interrupt_ns = now_ns, .interrupted = number == SIGINT};
}

bool stop_signals_again(stop_signals *s, int number, uint64_t now_ns)
{
  if (now_ns - s->first_ns >= STOP_AGAIN_SECONDS * NS_PER_SECOND)
    return true;
  if (number != SIGINT)
    return false;
  bool again = s->interrupted && now_ns - s->interrupt_ns >= SAME_INTERRUPT_NS;
  s->interrupted = true;
  s->interrupt_ns = now_ns;
  return again;
}

bool stop_signals_tell(stop_signals *s)
{
  bool first = !s->told;
  s->told = true;
  return first;
}
