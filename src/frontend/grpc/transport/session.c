// SPDX-License-Identifier: Apache-2.0
// Between HTTP/2 and calls. nghttp2 checks frames and headers, keeps windows, and closes
// connections that reset too many streams or send too many CONTINUATIONs. These callbacks pass on
// what comes and goes, and count frames that cost time without effect.
#include "frontend/grpc/transport/session.h"

#include "frontend/common/observe/frontend_log.h"
#include "frontend/grpc/transport/connection_state.h"
#include "frontend/grpc/transport/loop.h"

#include <string.h>

#define RESET_BURST      1000 // streams that a client may reset at once
#define RESET_RATE       33   // per second after that
#define MAX_QUEUED_ACKS  1000
#define MAX_SETTINGS     32
#define IDLE_FRAME_BURST 10000 // frames without effect
#define IDLE_FRAME_RATE  330
#define INVALID_COST     100                           // of an invalid frame
#define RESET_COST       10                            // of a stream that the server had to reset
#define BLOCK_MAX_BYTES  (4 * CONNECTION_HEADER_BYTES) // of a header that still gets an error text
#define FIELD_OVERHEAD   32                            // HPACK's count for each field
#define PER_CREDIT_BYTES 256 // sent: one more frame without effect, a window update
#define NS_PER_SECOND    1e9
#define IGNORED(x)       (void)(x)

// ---- the end ----

void session_say_goodbye(grpc_connection *c)
{
  connection_set_state(c, CONNECTION_LEFT);
  nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR, NULL,
                        0);
  grpc_loop_mark(c->loop, c);
}

// ---- frames that do nothing ----

// Closes the connection of a client that misbehaves (GOAWAY with `why`).
static void send_away(grpc_connection *c, const char *why)
{
  if (c->state >= CONNECTION_FAILED)
    return;
  frontend_log_verbose("the connection of %s is closed: %s", c->peer, why);
  nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(c->session),
                        NGHTTP2_ENHANCE_YOUR_CALM, (const uint8_t *)why, strlen(why));
  connection_set_state(c, CONNECTION_FAILED);
}

// Charges the client for `cost` frames without effect. A client with too many is sent away.
static void charge(grpc_connection *c, unsigned cost)
{
  uint64_t now = c->loop->now_ns;
  c->credit += (double)(now - c->credit_ns) / NS_PER_SECOND * IDLE_FRAME_RATE;
  c->credit_ns = now;
  if (c->credit > IDLE_FRAME_BURST)
    c->credit = IDLE_FRAME_BURST;
  c->credit -= cost;
  if (c->credit < 0)
    send_away(c, "too_many_frames");
}

// A client that pings too often is sent away, as gRPC does. Data sent to it clears its strikes.
static void record_ping(grpc_connection *c)
{
  const listener_options *options = &c->loop->all->listener->options;
  uint64_t now = c->loop->now_ns;
  bool too_soon = c->ping_came_ns != 0 &&
                  now - c->ping_came_ns < options->min_ping_interval_ms * UINT64_C(1000000);
  c->ping_came_ns = now;
  if (options->max_ping_strikes > 0 && too_soon && ++c->strikes > options->max_ping_strikes)
    send_away(c, "too_many_pings");
}

// ---- what comes ----

static grpc_stream *stream_of(grpc_connection *c, int32_t stream_id)
{
  return nghttp2_session_get_stream_user_data(c->session, stream_id);
}

static int begin_frame(nghttp2_session *session, const nghttp2_frame_hd *frame, void *pointer)
{
  IGNORED(session);
  grpc_connection *c = pointer;
  bool acknowledges = (frame->flags & NGHTTP2_FLAG_ACK) != 0;
  bool useful = frame->type == NGHTTP2_HEADERS || frame->type == NGHTTP2_DATA ||
                (frame->type == NGHTTP2_SETTINGS && acknowledges) ||
                (frame->type == NGHTTP2_PING && acknowledges && c->pings > 0);
  if (!useful)
    charge(c, 1);
  return 0;
}

static int begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *pointer)
{
  grpc_connection *c = pointer;
  c->header_bytes = 0;
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
    return 0;
  int32_t id = frame->hd.stream_id;
  // Closed streams count while the core still has their requests.
  bool has_room = atomic_load_explicit(&c->alive, memory_order_relaxed) < CONNECTION_MAX_STREAMS;
  bool takes = has_room && c->state < CONNECTION_FAILED;
  grpc_stream *made = takes ? c->loop->all->handlers->open(c, id) : NULL;
  if (made == NULL) {
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // skips the fields
  }
  nghttp2_session_set_stream_user_data(session, id, made);
  return 0;
}

static int take_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                       size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                       void *pointer)
{
  IGNORED(session);
  IGNORED(flags);
  grpc_connection *connection = pointer;
  // A byte can stand for a field of 4 KiB, so too large a header is not read to its end.
  connection->header_bytes += name_size + value_size + FIELD_OVERHEAD;
  if (connection->header_bytes > BLOCK_MAX_BYTES) {
    charge(connection, INVALID_COST);
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
    return 0;
  grpc_stream *s = stream_of(connection, frame->hd.stream_id);
  if (s != NULL)
    connection->loop->all->handlers->take_header(s, (slice){(const char *)name, name_size},
                                                 (slice){(const char *)value, value_size});
  return 0;
}

static int take_data(nghttp2_session *session, uint8_t flags, int32_t stream_id,
                     const uint8_t *data, size_t size, void *pointer)
{
  IGNORED(flags);
  grpc_connection *c = pointer;
  grpc_stream *s = stream_of(c, stream_id);
  if (s == NULL || c->loop->all->handlers->take_data(s, (const char *)data, size))
    nghttp2_session_consume(session, stream_id, size);
  return 0;
}

static int frame_came(nghttp2_session *session, const nghttp2_frame *frame, void *pointer)
{
  IGNORED(session);
  grpc_connection *c = pointer;
  if (frame->hd.type == NGHTTP2_PING) {
    if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
      record_ping(c);
    } else if (c->pings > 0) {
      c->pings--;
      c->pinged_ns = 0;
      if (c->state == CONNECTION_TOLD)
        session_say_goodbye(c);
    }
    return 0;
  }
  if (frame->hd.type == NGHTTP2_SETTINGS && c->state == CONNECTION_BEGINS)
    connection_set_state(c, CONNECTION_OPEN);
  if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == frame->data.padlen &&
      (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
    charge(c, 1);
  if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
    return 0;
  grpc_stream *s = stream_of(c, frame->hd.stream_id);
  if (s == NULL)
    return 0;
  if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
    c->loop->all->handlers->begin(s);
  if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
    c->loop->all->handlers->half_close(s);
  return 0;
}

static int invalid_frame_came(nghttp2_session *session, const nghttp2_frame *frame, int error_code,
                              void *pointer)
{
  IGNORED(session);
  IGNORED(frame);
  frontend_log_verbose("a frame that is none: %s", nghttp2_strerror(error_code));
  charge(pointer, INVALID_COST);
  return 0;
}

static int stream_closed(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                         void *pointer)
{
  IGNORED(session);
  IGNORED(error_code);
  grpc_connection *c = pointer;
  grpc_stream *s = stream_of(c, stream_id);
  if (s != NULL)
    c->loop->all->handlers->close(s);
  return 0;
}

// ---- what goes ----

// Resets a stream whose reply is complete, so that the client stops sending.
static int frame_went(nghttp2_session *session, const nghttp2_frame *frame, void *pointer)
{
  grpc_connection *c = pointer;
  if (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) {
    c->strikes = 0;
    c->credit += 1 + (double)frame->hd.length / PER_CREDIT_BYTES;
  }
  if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
    c->pings++;
  // The client caused the reset, so it counts as the client's own.
  if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
    charge(c, RESET_COST);
  if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
      (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
    return 0;
  grpc_stream *s = stream_of(c, frame->hd.stream_id);
  if (s != NULL && !s->half_closed)
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
  return 0;
}

static ssize_t frame_size(nghttp2_session *session, uint8_t frame_type, int32_t stream_id,
                          int32_t session_window, int32_t stream_window, uint32_t max_frame_size,
                          void *pointer)
{
  IGNORED(session);
  IGNORED(frame_type);
  IGNORED(stream_id);
  IGNORED(pointer);
  int32_t size = session_window < stream_window ? session_window : stream_window;
  int32_t most = max_frame_size > CONNECTION_FRAME_BYTES ? (int32_t)CONNECTION_FRAME_BYTES
                                                         : (int32_t)max_frame_size;
  return size < most ? size : most;
}

#define FRAME_HEADER_BYTES 9

static int send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *header,
                     size_t length, nghttp2_data_source *source, void *pointer)
{
  IGNORED(session);
  IGNORED(frame);
  grpc_connection *c = pointer;
  bool taken = output_copy(&c->output, header, FRAME_HEADER_BYTES) &&
               c->loop->all->handlers->give_data(source->ptr, &c->output, length);
  if (!taken)
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  // Else nghttp2 would send as much as the windows allow.
  return c->output.pending < OUTPUT_BYTES ? 0 : NGHTTP2_ERR_PAUSE;
}

// ---- a session ----

error *session_make_shared(nghttp2_session_callbacks **callbacks, nghttp2_option **options)
{
  if (nghttp2_session_callbacks_new(callbacks) != 0 || nghttp2_option_new(options) != 0)
    return error_no_memory();
  nghttp2_session_callbacks *c = *callbacks;
  nghttp2_session_callbacks_set_on_begin_frame_callback(c, begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(c, begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(c, take_header);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, take_data);
  nghttp2_session_callbacks_set_on_frame_recv_callback(c, frame_came);
  nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, invalid_frame_came);
  nghttp2_session_callbacks_set_on_stream_close_callback(c, stream_closed);
  nghttp2_session_callbacks_set_on_frame_send_callback(c, frame_went);
  nghttp2_session_callbacks_set_data_source_read_length_callback(c, frame_size);
  nghttp2_session_callbacks_set_send_data_callback(c, send_data);
  nghttp2_option_set_no_auto_window_update(*options, 1);
  nghttp2_option_set_no_closed_streams(*options, 1);
  // gRPC's clients send metadata with blanks around it, which HTTP/2 forbids.
  nghttp2_option_set_no_rfc9113_leading_and_trailing_ws_validation(*options, 1);
  nghttp2_option_set_max_outbound_ack(*options, MAX_QUEUED_ACKS);
  nghttp2_option_set_max_settings(*options, MAX_SETTINGS);
  nghttp2_option_set_stream_reset_rate_limit(*options, RESET_BURST, RESET_RATE);
  return NULL;
}

void session_free_shared(nghttp2_session_callbacks *callbacks, nghttp2_option *options)
{
  if (callbacks != NULL)
    nghttp2_session_callbacks_del(callbacks);
  if (options != NULL)
    nghttp2_option_del(options);
}

bool session_begin(grpc_connection *c)
{
  static const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, CONNECTION_MAX_STREAMS},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, CONNECTION_STREAM_BYTES},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, CONNECTION_FRAME_BYTES},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, CONNECTION_HEADER_BYTES},
  };
  c->credit = IDLE_FRAME_BURST;
  c->credit_ns = c->loop->now_ns;
  return nghttp2_session_server_new2(&c->session, c->loop->all->callbacks, c,
                                     c->loop->all->session_options) == 0 &&
         nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings,
                                 sizeof(settings) / sizeof(settings[0])) == 0 &&
         nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                               (int32_t)CONNECTION_BYTES) == 0;
}
