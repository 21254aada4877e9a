// Shuts connections down that wait too long. Watcher thread.
#include "frontend/http/transport/registry.h"

#include "base/cleanup.h"

#include <linux/sockios.h>
#include <linux/tcp.h> // glibc's tcp_info ends before tcpi_bytes_acked
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define LEFT_GRACE_MS 500 // for what a client sent before it left

// Has the client taken enough of its reply since the last look? How much it took from a Unix socket
// nobody counts: there, whatever moves is progress, and is looked at in each tick.
static bool reply_moves(connection *c, uint64_t min_bytes)
{
  struct tcp_info info = {0};
  socklen_t size = sizeof(info);
  if (getsockopt(c->socket_fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    int unsent = 0;
    bool moves = ioctl(c->socket_fd, SIOCOUTQ, &unsent) == 0 && unsent != c->unsent_bytes;
    c->unsent_bytes = unsent;
    return moves;
  }
  uint64_t acknowledged = info.tcpi_bytes_acked - c->acknowledged_bytes;
  if (acknowledged >= min_bytes)
    c->acknowledged_bytes = info.tcpi_bytes_acked;
  return acknowledged >= min_bytes;
}

static unsigned timeout_of(const listener_options *options, connection_state state)
{
  switch (state) {
  case CONNECTION_IDLE:
    return options->idle_timeout_ms;
  case CONNECTION_HEADERS:
    return options->header_timeout_ms;
  case CONNECTION_BODY:
    return options->body_timeout_ms;
  case CONNECTION_REPLY:
    return options->write_timeout_ms;
  case CONNECTION_RUNNING:
  case CONNECTION_CLOSED:
    break;
  }
  return 0;
}

static bool has_left(connection *c)
{
  LOCK_SCOPE(&c->exchange_mutex);
  return c->left;
}

// Shuts the connection down when it has waited too long: its loop then sees the end of the stream
// and closes it. The registry's mutex is held, so the descriptor is still this connection's.
static void check_timeout(connection *c, bool is_unix, uint64_t now)
{
  const listener_options *options = c->all->options;
  connection_state state = atomic_load(&c->state);
  unsigned timeout = timeout_of(options, state);
  uint64_t since = atomic_load(&c->since_ms);
  bool reading = state != CONNECTION_RUNNING && state != CONNECTION_REPLY;
  // The loop misses an end that comes in the same moment as the data before it.
  if (reading && now >= since + LEFT_GRACE_MS && has_left(c)) {
    shutdown(c->socket_fd, SHUT_RDWR);
    return;
  }
  bool due = timeout != 0 && now >= since && now - since >= timeout;
  bool looked_at = state == CONNECTION_REPLY && timeout != 0 && (due || is_unix);
  if (looked_at && reply_moves(c, connection_min_bytes(options, timeout)))
    atomic_compare_exchange_strong(&c->since_ms, &since, now);
  else if (due)
    shutdown(c->socket_fd, SHUT_RDWR);
}

void connections_check_timeouts(connections *all, bool is_unix)
{
  uint64_t now = connections_now_ms();
  LOCK_SCOPE(&all->mutex);
  for (connection *c = all->newest; c != NULL; c = c->next)
    check_timeout(c, is_unix, now);
}
