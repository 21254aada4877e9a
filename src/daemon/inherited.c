// SPDX-License-Identifier: Apache-2.0
// Reads the variables once. The names are FileDescriptorName= in the unit.
#include "daemon/inherited.h"

#include "base/text.h"
#include "daemon/notify.h"
#include "frontend/common/observe/frontend_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST 3 // SD_LISTEN_FDS_START
#define MOST  64

struct inherited {
  int count;
  char *names[MOST]; // of descriptor FIRST + i; NULL: taken
};

static bool are_ours(void)
{
  int64_t pid;
  return notify_number("LISTEN_PID", &pid) && pid == getpid();
}

static error *read_names(inherited *sockets)
{
  const char *rest = getenv("LISTEN_FDNAMES");
  for (int i = 0; i < sockets->count; i++) {
    const char *name = rest == NULL ? "" : rest;
    size_t length = strcspn(name, ":");
    sockets->names[i] = text_copy((slice){name, length});
    if (sockets->names[i] == NULL)
      return error_no_memory();
    rest = rest != NULL && rest[length] == ':' ? rest + length + 1 : NULL;
  }
  return NULL;
}

static error *read_sockets(inherited *sockets)
{
  int64_t count;
  if (!are_ours())
    return NULL;
  if (!notify_number("LISTEN_FDS", &count) || count < 0 || count > MOST)
    return error_new(ERROR_INVALID_ARG, "LISTEN_FDS is '%s', expected a number from 0 to %d",
                     getenv("LISTEN_FDS") == NULL ? "" : getenv("LISTEN_FDS"), MOST);
  for (int i = 0; i < count; i++)
    if (fcntl(FIRST + i, F_SETFD, FD_CLOEXEC) != 0)
      return error_new(ERROR_INVALID_ARG, "LISTEN_FDS is %d, but descriptor %d: %s", (int)count,
                       FIRST + i, strerror(errno));
  sockets->count = (int)count;
  return read_names(sockets);
}

error *inherited_read(inherited **result)
{
  *result = calloc(1, sizeof(**result));
  if (*result == NULL)
    return error_no_memory();
  error *e = read_sockets(*result);
  if (e != NULL) {
    inherited_free(*result);
    *result = NULL;
  }
  return e;
}

int inherited_take(inherited *sockets, const char *name)
{
  for (int i = 0; i < sockets->count; i++) {
    if (sockets->names[i] == NULL || strcmp(sockets->names[i], name) != 0)
      continue;
    free(sockets->names[i]);
    sockets->names[i] = NULL;
    return FIRST + i;
  }
  return 0;
}

void inherited_free(inherited *sockets)
{
  if (sockets == NULL)
    return;
  for (int i = 0; i < sockets->count; i++) {
    if (sockets->names[i] == NULL)
      continue;
    frontend_log_warning("the socket '%s' of the service manager is not used: expected http, grpc, "
                         "admin-http, admin-grpc or metrics, each once, for ports that flags allow",
                         sockets->names[i]);
    close(FIRST + i);
    free(sockets->names[i]);
  }
  free(sockets);
}
