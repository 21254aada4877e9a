// SPDX-License-Identifier: Apache-2.0
// Reads and drops bytes of refused clients. The watcher thread reads, loop threads add.
#include "frontend/http/transport/linger.h"

#include "base/cleanup.h"
#include "base/thread.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MAX_CLIENTS 64
#define LINGER_MS          30000
#define SILENCE_MS         3000
#define SCRATCH_BYTES      (64u << 10)
#define READ_RUN_BYTES     (4u << 20) // read from a client before the next has its turn

typedef struct lingering {
  int socket_fd;
  uint64_t bytes_left;
  uint64_t end_ms;
  uint64_t heard_ms; // when bytes last came
} lingering;

struct linger_list {
  pthread_mutex_t mutex; // guards what follows
  lingering clients[LINGER_MAX_CLIENTS];
  size_t count;
  char scratch[SCRATCH_BYTES]; // for dropped bytes
};

linger_list *linger_new(void)
{
  linger_list *list = calloc(1, sizeof(*list));
  if (list == NULL)
    return NULL;
  pthread_mutex_init(&list->mutex, NULL);
  return list;
}

void linger_free(linger_list *list)
{
  if (list == NULL)
    return;
  for (size_t i = 0; i < list->count; i++)
    close(list->clients[i].socket_fd);
  pthread_mutex_destroy(&list->mutex);
  free(list);
}

bool linger_add(linger_list *list, int socket_fd, uint64_t max_bytes, uint64_t now_ms)
{
  LOCK_SCOPE(&list->mutex);
  if (list->count == LINGER_MAX_CLIENTS)
    return false;
  int copy = fcntl(socket_fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0)
    return false;
  shutdown(copy, SHUT_WR); // the client sees the reply's end at once
  list->clients[list->count++] = (lingering){
      .socket_fd = copy, .bytes_left = max_bytes, .end_ms = now_ms + LINGER_MS, .heard_ms = now_ms};
  return true;
}

static void drop(linger_list *list, size_t i)
{
  assert(lock_is_held(&list->mutex) && i < list->count);
  close(list->clients[i].socket_fd);
  list->clients[i] = list->clients[--list->count];
}

// True when the client has ended, failed, or sent its limit.
static bool read_one(linger_list *list, lingering *client, uint64_t now_ms)
{
  for (size_t run = 0; run < READ_RUN_BYTES && client->bytes_left > 0; run += SCRATCH_BYTES) {
    size_t most = client->bytes_left < SCRATCH_BYTES ? (size_t)client->bytes_left : SCRATCH_BYTES;
    // MSG_TRUNC makes TCP drop the bytes in the kernel; Unix sockets copy them.
    ssize_t got = recv(client->socket_fd, list->scratch, most, MSG_TRUNC | MSG_DONTWAIT);
    if (got < 0)
      return errno != EAGAIN && errno != EINTR;
    if (got == 0)
      return true;
    client->heard_ms = now_ms;
    client->bytes_left -= (size_t)got;
  }
  return client->bytes_left == 0;
}

void linger_read(linger_list *list, uint64_t now_ms)
{
  LOCK_SCOPE(&list->mutex);
  for (size_t i = list->count; i-- > 0;)
    if (read_one(list, &list->clients[i], now_ms))
      drop(list, i);
}

void linger_expire(linger_list *list, uint64_t now_ms)
{
  LOCK_SCOPE(&list->mutex);
  for (size_t i = list->count; i-- > 0;)
    if (now_ms >= list->clients[i].end_ms || now_ms >= list->clients[i].heard_ms + SILENCE_MS)
      drop(list, i);
}

bool linger_is_busy(linger_list *list)
{
  LOCK_SCOPE(&list->mutex);
  return list->count > 0;
}
