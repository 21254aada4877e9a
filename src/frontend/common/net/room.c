// SPDX-License-Identifier: Apache-2.0
// Asks the system for the next descriptor, and the ports to give way. See room.h.
#include "frontend/common/net/room.h"

#include "base/cleanup.h"
#include "base/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h> // glibc's tcp_info ends before tcpi_bytes_received
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_KEPT  256 // descriptors kept from clients, at most
#define NEAR      64  // this close to the bound, the system is asked
#define KEPT_PART 4   // this part of all descriptors is kept, where MAX_KEPT is more

static struct {
  pthread_mutex_t mutex; // guards what follows
  list givers;
} ports = {.mutex = PTHREAD_MUTEX_INITIALIZER};

size_t room_bound(size_t all, room_class who)
{
  size_t kept = all / KEPT_PART < MAX_KEPT ? all / KEPT_PART : MAX_KEPT;
  return all - (who == ROOM_CLIENTS ? kept : kept / 2);
}

static size_t bound_of(room_class who)
{
  static _Atomic size_t all; // read at the first call
  if (all == 0)
    all = machine_descriptors();
  return room_bound(all, who);
}

bool room_has(room_class who, int number)
{
  return number >= 0 && (size_t)number < bound_of(who);
}

bool room_is_left(room_class who, int last)
{
  if (last >= 0 && room_has(who, last + NEAR))
    return true;
  int next = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  if (next < 0)
    return errno != EMFILE && errno != ENFILE;
  close(next);
  return room_has(who, next);
}

bool room_is_silent(int socket_fd)
{
  struct tcp_info info = {0};
  socklen_t size = sizeof(info);
  return getsockopt(socket_fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         info.tcpi_bytes_received == 0;
}

void room_join(room_giver *g)
{
  LOCK_SCOPE(&ports.mutex);
  if (ports.givers.ends.next == NULL)
    list_init(&ports.givers);
  list_prepend(&ports.givers, &g->node);
}

void room_leave(room_giver *g)
{
  LOCK_SCOPE(&ports.mutex);
  if (list_is_linked(&g->node))
    list_remove(&g->node);
}

void room_ask(void)
{
  LOCK_SCOPE(&ports.mutex);
  if (ports.givers.ends.next == NULL)
    return;
  list_foreach (room_giver, g, node, &ports.givers)
    g->give(g);
}
