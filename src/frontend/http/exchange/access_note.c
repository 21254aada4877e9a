// The note lies in the exchange's arena; x->note is NULL without an access log.
#include "frontend/http/exchange/access_note.h"

#include "base/clock.h"
#include "frontend/common/infer/inference.h"
#include "frontend/common/net/peer.h"
#include "frontend/common/observe/access_log.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/server.h"

#include <stdio.h>
#include <string.h>

#define PEER_BYTES   PEER_TEXT_BYTES
#define TARGET_BYTES 256 // of a path that is no route

struct access_note {
  uint64_t began_ns;
  char method[16];
  char target[TARGET_BYTES];
  char peer[PEER_BYTES];
  uint64_t bytes_in;
};

static void print_peer(struct MHD_Connection *mhd, char peer[PEER_BYTES])
{
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info != NULL)
    peer_print(info->client_addr, peer, PEER_BYTES);
}

void access_note_began(exchange *x, const char *method, const char *path)
{
  if (x->http->options.access_log == NULL)
    return;
  access_note *note = arena_allocate_array(&x->arena, 1, sizeof(*note));
  if (note == NULL)
    return;
  memset(note, 0, sizeof(*note));
  note->began_ns = clock_monotonic_ns();
  snprintf(note->method, sizeof(note->method), "%s", method);
  snprintf(note->target, sizeof(note->target), "%s", path);
  print_peer(x->mhd, note->peer);
  x->note = note;
}

void access_note_received(exchange *x, size_t size)
{
  if (x->note != NULL)
    x->note->bytes_in += size;
}

void access_note_over(exchange *x, unsigned status)
{
  const access_note *note = x->note;
  if (note == NULL)
    return;
  NEREID_LogSubject subject = exchange_subject(x);
  access_record record = {
      .protocol = "http",
      .peer = note->peer,
      .method = note->method,
      .route = x->route != NULL ? x->route->path : note->target,
      .status = status,
      .model = subject.model,
      .version = subject.version,
      .request_id = subject.request_id,
      .total_ns = clock_monotonic_ns() - note->began_ns,
      .bytes_in = note->bytes_in,
      .bytes_out = strcmp(note->method, "HEAD") == 0 ? 0 : x->reply_bytes,
  };
  if (x->inference != NULL)
    access_times_tell(&x->inference->times, subject.version, &record);
  access_log_write(x->http->options.access_log, &record);
}
