// The note lies in the exchange's arena; x->note is NULL without an access log.
#include "frontend/http/access_note.h"

#include "base/clock.h"
#include "frontend/http/exchange.h"
#include "frontend/http/server.h"
#include "frontend/protocol/access_log.h"
#include "frontend/protocol/peer.h"
#include "nereid/nereid.h"

#include <stdio.h>
#include <string.h>

#define PEER_BYTES   PEER_TEXT_BYTES
#define TARGET_BYTES 256 // of a path that is no route

// Times come from whatever thread the model answers on.
struct access_note {
  uint64_t began_ns;
  char method[16];
  char target[TARGET_BYTES];
  char peer[PEER_BYTES];
  uint64_t bytes_in;
  _Atomic uint64_t queue_ns;
  _Atomic uint64_t compute_ns;
  _Atomic uint32_t batch_size;
  _Atomic int64_t version;
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

void access_note_response(exchange *x, TRITONSERVER_InferenceResponse *response)
{
  NEREID_ResponseTimes times;
  const char *model;
  int64_t version = 0;
  access_note *note = x->note;
  if (note == NULL || response == NULL)
    return;
  NEREID_InferenceResponseTimes(response, &times);
  TRITONSERVER_ErrorDelete(TRITONSERVER_InferenceResponseModel(response, &model, &version));
  uint64_t now = clock_monotonic_ns();
  uint64_t started = times.started_ns != 0 ? times.started_ns : now; // refused: it waited, no more
  atomic_store_explicit(&note->queue_ns, started - times.submitted_ns, memory_order_relaxed);
  atomic_store_explicit(&note->compute_ns, now - started, memory_order_relaxed);
  atomic_store_explicit(&note->batch_size, times.batch_size, memory_order_relaxed);
  atomic_store_explicit(&note->version, version, memory_order_relaxed);
}

void access_note_over(exchange *x, unsigned status)
{
  const access_note *note = x->note;
  if (note == NULL)
    return;
  NEREID_LogSubject subject = exchange_subject(x);
  int64_t version = atomic_load_explicit(&note->version, memory_order_relaxed);
  const access_record record = {
      .protocol = "http",
      .peer = note->peer,
      .method = note->method,
      .route = x->route != NULL ? x->route->path : note->target,
      .status = status,
      .model = subject.model,
      .version = version > 0 ? version : subject.version,
      .request_id = subject.request_id,
      .batch_size = atomic_load_explicit(&note->batch_size, memory_order_relaxed),
      .queue_ns = atomic_load_explicit(&note->queue_ns, memory_order_relaxed),
      .compute_ns = atomic_load_explicit(&note->compute_ns, memory_order_relaxed),
      .total_ns = clock_monotonic_ns() - note->began_ns,
      .bytes_in = note->bytes_in,
      .bytes_out = strcmp(note->method, "HEAD") == 0 ? 0 : x->reply_bytes,
  };
  access_log_write(x->http->options.access_log, &record);
}
