// SPDX-License-Identifier: Apache-2.0
// One datagram. Source of the protocol: sd_notify(3).
#include "daemon/notify.h"

#include "base/clock.h"
#include "base/number.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_service_manager(const char *state)
{
  const char *path = getenv("NOTIFY_SOCKET");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (path == NULL || (path[0] != '/' && path[0] != '@') ||
      strlen(path) >= sizeof(address.sun_path))
    return;
  size_t size = strlen(path);
  memcpy(address.sun_path, path, size);
  if (path[0] == '@') // an abstract socket
    address.sun_path[0] = '\0';
  int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0)
    return;
  // Best effort: errors are ignored.
  (void)sendto(descriptor, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
  close(descriptor);
}

bool notify_number(const char *variable, int64_t *value)
{
  const char *text = getenv(variable), *end;
  return text != NULL && number_read_i64(text, &end, value) == NUMBER_READ_OK && *end == '\0';
}

void notify_reloading(void)
{
  char state[64];
  snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
           clock_monotonic_ns() / 1000);
  notify_service_manager(state);
}
