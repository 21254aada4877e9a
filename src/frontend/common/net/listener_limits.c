// What the machine allows, and what of it a listener takes.
#include "frontend/common/net/listener_limits.h"

#include "base/clock.h"
#include "base/machine.h"
#include "frontend/common/observe/frontend_log.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#define LOG_AGAIN_NS (60 * UINT64_C(1000000000))

unsigned listener_loop_count(unsigned wanted)
{
  if (wanted != 0)
    return wanted;
  unsigned cpus = machine_cpus();
  return cpus < 2 ? 2 : cpus > 8 ? 8 : cpus;
}

unsigned listener_connection_limit(const char *what, unsigned wanted, size_t others)
{
  size_t descriptors = machine_descriptors();
  size_t max_connections = descriptors > 2 * others ? descriptors - others : descriptors / 2;
  if (wanted != 0 && wanted <= max_connections)
    return wanted;
  if (wanted != 0)
    frontend_log_warning(
        "%s: at most %zu connections, not %u: the process may open %zu descriptors", what,
        max_connections, wanted, descriptors);
  return max_connections < UINT_MAX ? (unsigned)max_connections : UINT_MAX;
}

static bool is_due(_Atomic uint64_t *last_logged_ns)
{
  uint64_t now = clock_monotonic_ns();
  uint64_t before = atomic_load(last_logged_ns);
  bool due = before == 0 || now - before >= LOG_AGAIN_NS;
  return due && atomic_compare_exchange_strong(last_logged_ns, &before, now);
}

void listener_log_waiting(_Atomic uint64_t *last_logged_ns, const char *what, const char *reason)
{
  if (is_due(last_logged_ns))
    frontend_log_warning("new %s connections wait: %s", what, reason);
}

void listener_log_protocol(_Atomic uint64_t *last_logged_ns, const char *what, const char *spoken)
{
  if (is_due(last_logged_ns))
    frontend_log_warning(
        "a client of the %s port was refused, which takes %s: HTTP and gRPC have a "
        "port each",
        what, spoken);
}

size_t listener_byte_limit(size_t wanted)
{
  return wanted == 0 ? machine_memory() / 4 : wanted;
}
