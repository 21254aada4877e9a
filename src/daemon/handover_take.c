// SPDX-License-Identifier: Apache-2.0
// Asks, takes and confirms. See handover_take.h.
#include "daemon/handover_take.h"

#include "base/cleanup.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/common/tensor/shared_memory.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define PREFIX_SIZE (sizeof(LISTEN_UNIX_PREFIX) - 1)

// ---- asking ----

// *fd: -1 when no server listens there.
static error *connect_to(const char *address, int *fd)
{
  struct sockaddr_un to;
  socklen_t size;
  RETURN_IF_ERROR(listen_unix_address(address + PREFIX_SIZE, &to, &size));
  int s AUTO_CLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  *fd = -1;
  if (s < 0 || connect(s, (const struct sockaddr *)&to, size) != 0)
    return errno == ENOENT || errno == ECONNREFUSED
               ? NULL
               : error_new(ERROR_UNAVAILABLE, "cannot connect to '%s': %s", address,
                           strerror(errno));
  *fd = s;
  s = -1;
  return NULL;
}

static error *receive_sockets(handover_taker *t)
{
  json_t *message;
  RETURN_IF_ERROR(handover_link_ask(&t->link, json_pack("{s:i}", "take", HANDOVER_PROTOCOL),
                                    "sockets", &message));
  error *e = handover_read_sockets(message, t->link.fds, t->link.fd_count, &t->sockets);
  json_decref(message);
  if (e != NULL)
    t->sockets.count = 0; // the link closes them
  else
    t->link.fd_count = 0;
  return e;
}

error *handover_taker_ask(handover_taker *t, const char *address)
{
  int fd;
  *t = HANDOVER_NO_TAKER;
  RETURN_IF_ERROR(connect_to(address, &fd));
  if (fd < 0) {
    frontend_log_info("no server runs at '%s': nothing to take over (--upgrade)", address);
    return NULL;
  }
  RETURN_IF_ERROR(handover_link_open(&t->link, fd));
  RETURN_IF_ERROR(receive_sockets(t));
  t->takes = true;
  frontend_log_info("process %d goes on to serve until this server is ready", (int)t->link.peer);
  return NULL;
}

// ---- what clients have registered ----

// The region may be gone by now: its client will hear of that at its next request.
static void take_region(shared_memory *memory, const json_t *region)
{
  const char *name = json_string_value(json_object_get(region, "name"));
  const char *key = json_string_value(json_object_get(region, "key"));
  json_int_t offset = json_integer_value(json_object_get(region, "offset"));
  json_int_t size = json_integer_value(json_object_get(region, "byte_size"));
  if (name == NULL || key == NULL || offset < 0 || size < 0)
    return;
  error *e = shared_memory_register_system(memory, name, key, (uint64_t)offset, (uint64_t)size);
  if (e != NULL)
    frontend_log_warning("not taken over: %s", error_message(e));
  error_free(e);
}

static void take_registered(const json_t *message, shared_memory *memory)
{
  size_t i;
  json_t *region;
  json_array_foreach(json_object_get(message, "regions"), i, region)
  {
    take_region(memory, region);
  }
  size_t lost = json_array_size(json_object_get(message, "gpu_regions"));
  if (lost > 0)
    frontend_log_warning("not taken over: %zu regions of GPU memory, which their clients must "
                         "register again",
                         lost);
}

error *handover_taker_begin(handover_taker *t, shared_memory *memory)
{
  json_t *message;
  if (!t->takes)
    return NULL;
  error *e = handover_link_ask(&t->link, json_pack("{s:b}", "ready", true), "go", &message);
  if (e == NULL)
    take_registered(message, memory);
  json_decref(message);
  if (e == NULL || !t->link.ended)
    return e;
  frontend_log_warning("%s: this server serves alone", error_message(e));
  error_free(e);
  handover_link_close(&t->link);
  return NULL;
}

// ---- the end ----

static json_t *serving(handover_giver *own)
{
  handover_sockets served = {0};
  json_t *names = json_array();
  ports_list(own->ports, &served);
  for (size_t i = 0; i < served.count; i++)
    if (ports_is_handed(own->ports, served.of[i].name))
      json_array_append_new(names, json_string(served.of[i].name));
  if (own->socket.lent)
    json_array_append_new(names, json_string(HANDOVER_SOCKET_NAME));
  return json_pack("{s:o}", "serving", names);
}

void handover_taker_finish(handover_taker *t, handover_giver *own)
{
  json_t *message, *names = serving(own);
  listen_own(&own->socket);
  if (t->link.fd < 0) {
    json_decref(names);
    return;
  }
  error *e = handover_link_ask(&t->link, names, "done", &message);
  if (e == NULL)
    frontend_log_info("took over from process %d, which drains", (int)t->link.peer);
  else
    frontend_log_warning("%s: it may still serve, too", error_message(e));
  json_decref(message);
  error_free(e);
  handover_link_close(&t->link);
}

void handover_taker_fini(handover_taker *t)
{
  handover_link_close(&t->link);
  handover_sockets_fini(&t->sockets);
}
