// SPDX-License-Identifier: Apache-2.0
// An HTTP request's line in the access log. The entry is in the exchange's arena; x->access is NULL
// without an access log. Loop threads.
#include "frontend/http/exchange/exchange_parts.h"

#include "base/clock.h"
#include "frontend/common/infer/inference.h"
#include "frontend/common/net/peer.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/http/exchange/exchange_log.h"
#include "frontend/http/exchange/exchange_server.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define TARGET_BYTES 256 // of a path without a route

struct access_entry {
  uint64_t began_ns;
  char method[16];
  char target[TARGET_BYTES];
  char peer[PEER_TEXT_BYTES];
};

void access_entry_begin(exchange *x, const request_line *line)
{
  if (x->http->options.access_log == NULL)
    return;
  access_entry *entry = arena_allocate_array(&x->arena, 1, sizeof(*entry));
  if (entry == NULL)
    return;
  memset(entry, 0, sizeof(*entry));
  entry->began_ns = clock_monotonic_ns();
  snprintf(entry->method, sizeof(entry->method), "%s", line->method);
  snprintf(entry->target, sizeof(entry->target), "%s", line->path);
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info != NULL)
    peer_print(info->client_addr, entry->peer, sizeof(entry->peer));
  x->access = entry;
}

void access_entry_end(const exchange *x, unsigned status)
{
  const access_entry *entry = x->access;
  if (entry == NULL)
    return;
  NEREID_LogSubject subject = exchange_subject(x);
  access_record record = {
      .protocol = "http",
      .peer = entry->peer,
      .method = entry->method,
      .route = x->route != NULL ? x->route->path : entry->target,
      .status = status,
      .model = subject.model,
      .version = subject.version,
      .request_id = subject.request_id,
      .total_ns = clock_monotonic_ns() - entry->began_ns,
      .bytes_in = x->received_bytes,
      .bytes_out = strcmp(entry->method, "HEAD") == 0 ? 0 : x->reply_bytes,
  };
  if (x->inference != NULL)
    access_times_print(&x->inference->times, subject.version, &record);
  access_log_write(x->http->options.access_log, &record);
}

void access_entry_refused(const connection *c, unsigned status)
{
  access_log *log = connection_options(c)->access_log;
  char peer[PEER_TEXT_BYTES] = "";
  struct sockaddr_storage address = {0};
  socklen_t size = sizeof(address);
  if (log == NULL)
    return;
  if (getpeername(connection_socket(c), (struct sockaddr *)&address, &size) == 0)
    peer_print((const struct sockaddr *)&address, peer, sizeof(peer));
  const access_record record = {.protocol = "http", .peer = peer, .status = status};
  access_log_write(log, &record);
}
