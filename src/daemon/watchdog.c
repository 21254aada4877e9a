// SPDX-License-Identifier: Apache-2.0
// See watchdog.h.
#include "daemon/watchdog.h"

#include "daemon/notify.h"
#include "frontend/common/net/loop_core.h"
#include "frontend/common/observe/frontend_log.h"
#include "nereid/nereid.h"

#include <limits.h>
#include <unistd.h>

#define LOOKS 4 // while the manager is patient

watchdog watchdog_open(bool inherits)
{
  int64_t patience_us, process;
  watchdog w = {0};
  bool others = !inherits && notify_number("WATCHDOG_PID", &process) && process != getpid();
  if (!others && notify_number("WATCHDOG_USEC", &patience_us) && patience_us > 0 &&
      patience_us < INT64_MAX / 1000)
    w.period_ns = (uint64_t)patience_us * 1000 / LOOKS;
  return w;
}

int watchdog_wait_ms(const watchdog *w, uint64_t now_ns)
{
  if (w->period_ns == 0)
    return -1;
  uint64_t left_ms = now_ns >= w->next_ns ? 0 : (w->next_ns - now_ns) / 1000000 + 1;
  return left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

void watchdog_look(watchdog *w, TRITONSERVER_Server *server, uint64_t now_ns)
{
  if (w->period_ns == 0 || now_ns < w->next_ns)
    return;
  w->next_ns = now_ns + w->period_ns;
  const char *silent = loops_silent();
  bool timekeeper = NEREID_ServerAnswers(server);
  if (silent == NULL && timekeeper) {
    w->told = false;
    notify_service_manager("WATCHDOG=1");
  } else if (!w->told) {
    w->told = true;
    frontend_log_error("the service manager's watchdog is not fed: %s%s gives no sign of life",
                       silent != NULL ? "a loop of " : "the thread for deadlines",
                       silent != NULL ? silent : "");
  }
}
