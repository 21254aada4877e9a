// SPDX-License-Identifier: Apache-2.0
// Whole sessions of a gRPC client, from the preface on, against connections, calls and methods,
// with a core behind them (grpc_session/): no threads are between the bytes and the code, time and
// jobs go on when the input says so. An input is a list of steps, so that mutations of it are still
// frames and messages; RAW has bytes of any kind. What the server sends must be HTTP/2 and gRPC;
// afterwards nothing is left, and an honest client gets the answer that the first one got.
#include "frontend/common/policy/header_forward.h"
#include "frontend/common/tensor/shared_memory.h"
#include "frontend/grpc/call/grpc_message.h"
#include "frontend/grpc/service/methods.h"
#include "frontend/trace/trace.h"
#include "fuzz.h"
#include "grpc_session/client.h"
#include "grpc_session/core.h"
#include "grpc_session/listener.h"

#include <nghttp2/nghttp2.h>
#include <sys/socket.h>

#define MAX_SENT  ((size_t)2 << 20) // bytes of one input
#define MAX_STEPS 1000
#define BUDGET    ((size_t)8 << 20)
#define MS        UINT64_C(1000000)

typedef struct session {
  client client;
  fuzz_input input;
  buffer last; // what was sent last, to be sent again
} session;

static void send_owned(session *s, buffer *bytes_owned)
{
  CHECK(!bytes_owned->failed);
  client_send(&s->client, buffer_view(bytes_owned));
  buffer_fini(&s->last);
  s->last = *bytes_owned;
}

static uint32_t take_stream(session *s)
{
  return (uint32_t)fuzz_byte(&s->input) * 2 + 1;
}

// ---- steps ----

static slice take_bytes(session *s)
{
  size_t size = fuzz_byte(&s->input);
  return fuzz_take(&s->input, size | (size_t)fuzz_byte(&s->input) << 8);
}

static void send_raw(session *s)
{
  buffer bytes = BUFFER_EMPTY;
  buffer_append_slice(&bytes, take_bytes(s));
  send_owned(s, &bytes);
}

static void send_frame(session *s)
{
  buffer bytes = BUFFER_EMPTY;
  uint8_t type = fuzz_byte(&s->input), flags = fuzz_byte(&s->input);
  uint8_t place = fuzz_byte(&s->input);
  put_frame(&bytes, type, flags, place == 0 ? 0 : place * 2u - 1, take_bytes(s));
  send_owned(s, &bytes);
}

static void open_call(session *s)
{
  size_t count;
  buffer bytes = BUFFER_EMPTY;
  const method *all = methods_all(&count);
  uint32_t stream = take_stream(s);
  uint8_t which = fuzz_byte(&s->input);
  put_request(&bytes, which == UINT8_MAX ? "/none" : all[which % count].path, fuzz_byte(&s->input),
              stream);
  send_owned(s, &bytes);
}

enum {
  MESSAGE_LAST = 1,
  MESSAGE_GZIPPED = 2,
  MESSAGE_DEFLATED = 4,
  MESSAGE_LONG = 8,   // with zeroes behind
  MESSAGE_CLAIMS = 16 // to be packed, whether it is or not
};

static void put_packed(session *s, uint32_t stream, unsigned how, slice payload)
{
  buffer bytes = BUFFER_EMPTY;
  AUTO_BUFFER buffer packed = BUFFER_EMPTY;
  bool packs = (how & (MESSAGE_GZIPPED | MESSAGE_DEFLATED)) != 0;
  content_coding coding = (how & MESSAGE_GZIPPED) != 0 ? CODING_GZIP : CODING_DEFLATE;
  CHECK(!packs || compress_parts(coding, 1, &payload, 1, &packed));
  put_message(&bytes, stream, (how & MESSAGE_LAST) != 0 ? CLIENT_END_STREAM : 0,
              packs || (how & MESSAGE_CLAIMS) != 0, packs ? buffer_view(&packed) : payload);
  send_owned(s, &bytes);
}

static void send_message(session *s)
{
  uint32_t stream = take_stream(s);
  unsigned how = fuzz_byte(&s->input);
  size_t zeroes = (how & MESSAGE_LONG) != 0 ? (size_t)1 << fuzz_byte(&s->input) % 24 : 0;
  slice text = take_bytes(s);
  char *copy = fuzz_copy(text, zeroes);
  put_packed(s, stream, how, (slice){copy, text.size + zeroes});
  free(copy);
}

static void send_infer(session *s)
{
  static const char *const models[] = {"identity", "held", "loose", "none"};
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  uint32_t stream = take_stream(s);
  unsigned how = fuzz_byte(&s->input);
  uint8_t about = fuzz_byte(&s->input);
  size_t count = (size_t)1 << (about >> 3) % 20;
  put_infer(&text, models[about & 3], "id", count, (about & 4) != 0);
  put_packed(s, stream, how, buffer_view(&text));
}

static void send_reset(session *s)
{
  buffer bytes = BUFFER_EMPTY;
  uint32_t stream = take_stream(s);
  put_frame(&bytes, NGHTTP2_RST_STREAM, 0, stream, (slice){"\0\0\0\x08", 4});
  send_owned(s, &bytes);
}

static void send_window(session *s)
{
  AUTO_BUFFER buffer size = BUFFER_EMPTY;
  buffer bytes = BUFFER_EMPTY;
  uint8_t place = fuzz_byte(&s->input);
  put_number(&size, (size_t)1 << fuzz_byte(&s->input) % 31, 4);
  put_frame(&bytes, NGHTTP2_WINDOW_UPDATE, 0, place == 0 ? 0 : place * 2u - 1, buffer_view(&size));
  send_owned(s, &bytes);
}

static void send_again(session *s)
{
  AUTO_BUFFER buffer many = BUFFER_EMPTY;
  size_t times = (size_t)fuzz_byte(&s->input) * 16;
  for (size_t i = 0; i < times && many.size < MAX_SENT / 4; i++)
    buffer_append_slice(&many, buffer_view(&s->last));
  client_send(&s->client, buffer_view(&many));
}

static void let_time_pass(session *s)
{
  listener_advance(MS << fuzz_byte(&s->input) % 24);
  client_pass(&s->client);
}

static void run_job(session *s)
{
  listener_run_job();
  client_pass(&s->client);
}

// The instance's thread may have yet to get there.
static void answer(session *s)
{
  uint8_t how = fuzz_byte(&s->input);
  if (!core_answer(how)) {
    listener_wait();
    core_answer(how);
  }
  client_pass(&s->client);
}

static void change_reading(session *s)
{
  s->client.deaf = !s->client.deaf;
  client_pass(&s->client);
}

static void ask_to_leave(session *s)
{
  listener_leave();
  client_pass(&s->client);
}

static void leave(session *s)
{
  client_leave(&s->client);
}

static void half_leave(session *s)
{
  if (s->client.fd >= 0)
    shutdown(s->client.fd, SHUT_WR);
  client_pass(&s->client);
}

static void (*const steps[])(session *s) = {send_raw,      send_frame, open_call,   send_message,
                                            send_infer,    send_reset, send_window, send_again,
                                            let_time_pass, run_job,    answer,      change_reading,
                                            ask_to_leave,  leave,      half_leave};

// ---- a session ----

static void be_hostile(fuzz_input input, unsigned how, size_t piece)
{
  session s = {.input = input};
  client_open(&s.client, piece, MAX_SENT);
  if ((how & 32) == 0)
    client_greet(&s.client, (how & 64) != 0);
  for (int i = 0; i < MAX_STEPS && s.input.size > 0; i++)
    steps[fuzz_byte(&s.input) % (sizeof(steps) / sizeof(steps[0]))](&s);
  client_end(&s.client);
  buffer_fini(&s.last);
}

// An honest client: live, and one inference.
static void be_honest(void)
{
  client c;
  AUTO_BUFFER buffer bytes = BUFFER_EMPTY, request = BUFFER_EMPTY;
  client_open(&c, SIZE_MAX, SIZE_MAX);
  client_greet(&c, true);
  put_infer(&request, "identity", "id", 16, false);
  put_request(&bytes, "/inference.GRPCInferenceService/ServerLive", 0, 1);
  put_message(&bytes, 1, CLIENT_END_STREAM, 0, SLICE(""));
  put_request(&bytes, "/inference.GRPCInferenceService/ModelInfer", 0, 3);
  put_message(&bytes, 3, CLIENT_END_STREAM, 0, buffer_view(&request));
  client_send(&c, buffer_view(&bytes));
  for (int i = 0; c.replies.ended < 2; i++) {
    CHECK(i < 10000);
    listener_wait();
    client_pass(&c);
  }
  CHECK(c.replies.streams[0].messages == 1 && c.replies.streams[1].messages == 1);
  CHECK(c.replies.bytes > 16 * 8);
  client_end(&c);
}

// What of the listener an input may choose.
static listener_options options_of(unsigned how)
{
  static header_forward *forward;
  CHECK(forward != NULL || header_forward_new("forward-.*", &forward) == NULL);
  return (listener_options){.keepalive_time_ms = (how & 1) != 0 ? 1000 : 7200000,
                            .keepalive_timeout_ms = 20000,
                            .keepalive_without_calls = (how & 2) != 0,
                            .min_ping_interval_ms = 300000,
                            .max_ping_strikes = 2,
                            .max_connection_age_ms = (how & 4) != 0 ? 5000 : 0,
                            .max_connection_age_grace_ms = (how & 4) != 0 ? 3000 : 0,
                            .handshake_timeout_ms = 10000,
                            .body_timeout_ms = 30000,
                            .write_timeout_ms = 30000,
                            .compression_level = (how & 8) != 0 ? 1 : 0,
                            .forward = (how & 16) != 0 ? forward : NULL};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input = {data, size};
  const unsigned how = fuzz_byte(&input);
  const size_t piece = fuzz_byte(&input);
  TRITONSERVER_Server *core = core_get();
  trace_config config;
  listener_options options = options_of(how);
  CHECK(trace_config_init(&config) == NULL);
  CHECK(trace_service_new(&config, &options.trace) == NULL);
  options.shared_memory = shared_memory_new(false, NULL);
  CHECK(options.shared_memory != NULL);
  listener_begin(&options, BUDGET, core);
  be_hostile(input, how, piece == 0 ? SIZE_MAX : piece * piece);
  be_honest();
  listener_end();
  shared_memory_free(options.shared_memory);
  trace_service_free(options.trace);
  trace_config_fini(&config);
  core_reset_log();
  return 0;
}
