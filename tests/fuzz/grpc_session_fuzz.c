// Whole sessions of a gRPC client, from the preface on, against connections, calls and methods,
// with a core behind them (grpc_session/): no threads are between the bytes and the code, time and
// jobs go on when the input says so. An input is a list of steps, so that mutations of it are still
// frames and messages; RAW has bytes of any kind. What the server sends must be HTTP/2 and gRPC;
// afterwards nothing is left, and an honest client gets the answer that the first one got.
#include "base/buffer.h"
#include "frontend/grpc/message.h"
#include "frontend/grpc/methods.h"
#include "frontend/protocol/header_forward.h"
#include "frontend/protocol/shared_memory.h"
#include "frontend/trace/trace.h"
#include "fuzz.h"
#include "grpc_session/core.h"
#include "grpc_session/listener.h"
#include "grpc_session/replies.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_SENT   ((size_t)2 << 20) // bytes of one input
#define MOST_PIECES 4096              // then it is sent at once
#define MOST_STEPS  1000
#define BUDGET      ((size_t)8 << 20)
#define FRAME_MOST  16384
#define MS          UINT64_C(1000000)
#define PREFACE     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define END_HEADERS 4
#define END_STREAM  1

typedef struct session {
  fuzz_input input;
  int fd;       // -1: closed
  size_t piece; // bytes
  size_t pieces;
  size_t sent;
  bool deaf; // reads nothing
  replies replies;
  buffer last; // what was sent last, to be sent again
} session;

// ---- the client's socket ----

static void receive(session *s)
{
  static char room[64 << 10];
  ssize_t size;
  while (s->fd >= 0 && !s->deaf && (size = recv(s->fd, room, sizeof(room), 0)) > 0)
    replies_take(&s->replies, room, (size_t)size);
}

static void pass(session *s)
{
  listener_pass();
  receive(s);
}

static void send_all(session *s, slice bytes)
{
  if (bytes.size > MOST_SENT - s->sent)
    bytes.size = MOST_SENT - s->sent;
  s->sent += bytes.size;
  int refused = 0;
  while (bytes.size > 0 && s->fd >= 0 && refused < 2) {
    size_t most = s->pieces++ < MOST_PIECES ? s->piece : SIZE_MAX;
    size_t size = bytes.size < most ? bytes.size : most;
    ssize_t taken = send(s->fd, bytes.data, size, MSG_NOSIGNAL);
    CHECK(taken >= 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
    refused = taken > 0 ? 0 : refused + 1;
    if (taken > 0)
      bytes = (slice){bytes.data + taken, bytes.size - (size_t)taken};
    pass(s);
  }
}

static void send_owned(session *s, buffer *bytes_owned)
{
  CHECK(!bytes_owned->failed);
  send_all(s, buffer_view(bytes_owned));
  buffer_fini(&s->last);
  s->last = *bytes_owned;
}

// ---- frames ----

static void put_number(buffer *to, size_t value, int bytes)
{
  while (bytes-- > 0)
    buffer_append_char(to, (char)(value >> 8 * bytes));
}

static void put_frame(buffer *to, uint8_t type, uint8_t flags, uint32_t stream, slice payload)
{
  put_number(to, payload.size, 3);
  put_number(to, type, 1);
  put_number(to, flags, 1);
  put_number(to, stream, 4);
  buffer_append_slice(to, payload);
}

static uint32_t take_stream(session *s)
{
  return (uint32_t)fuzz_byte(&s->input) * 2 + 1;
}

// A literal that no table keeps; names and values are short.
static void put_field(buffer *block, slice name, slice value)
{
  put_number(block, 0, 1);
  put_number(block, name.size, 1);
  buffer_append_slice(block, name);
  put_number(block, value.size, 1);
  buffer_append_slice(block, value);
}

static void put_request(buffer *to, const char *path, unsigned extras, uint32_t stream)
{
  static const struct {
    const char *name, *value;
  } more[] = {{"grpc-encoding", "gzip"},
              {"grpc-encoding", "deflate"},
              {"grpc-accept-encoding", "identity,deflate, gzip"},
              {"grpc-timeout", "50m"},
              {"triton_grpc_error", "true"},
              {"forward-this", "value"},
              {"endpoint-load-metrics-format", "json"}};
  AUTO_BUFFER buffer block = BUFFER_EMPTY;
  put_field(&block, SLICE(":method"), SLICE("POST"));
  put_field(&block, SLICE(":scheme"), SLICE("http"));
  put_field(&block, SLICE(":path"), slice_of(path));
  put_field(&block, SLICE(":authority"), SLICE("x"));
  put_field(&block, SLICE("content-type"), SLICE("application/grpc"));
  for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
    if ((extras >> i & 1) != 0)
      put_field(&block, slice_of(more[i].name), slice_of(more[i].value));
  put_frame(to, NGHTTP2_HEADERS, END_HEADERS, stream, buffer_view(&block));
}

// A gRPC message in as many frames as it takes.
static void put_message(buffer *to, uint32_t stream, uint8_t flags, uint8_t packed, slice payload)
{
  AUTO_BUFFER buffer whole = BUFFER_EMPTY;
  put_number(&whole, packed, 1);
  put_number(&whole, payload.size, 4);
  buffer_append_slice(&whole, payload);
  for (slice left = buffer_view(&whole); left.size > 0;) {
    size_t size = left.size < FRAME_MOST ? left.size : FRAME_MOST;
    left.size -= size;
    put_frame(to, NGHTTP2_DATA, left.size == 0 ? flags : 0, stream, (slice){left.data, size});
    left.data += size;
  }
}

// ---- requests for inference ----

static void put_varint(buffer *to, uint64_t value)
{
  for (; value >= 128; value >>= 7)
    buffer_append_char(to, (char)(value | 128));
  buffer_append_char(to, (char)value);
}

static void put_bytes(buffer *to, unsigned field, slice bytes)
{
  put_varint(to, field << 3 | 2);
  put_varint(to, bytes.size);
  buffer_append_slice(to, bytes);
}

// `count` numbers of INT64, as raw or typed contents.
static void put_infer(buffer *to, const char *model, size_t count, bool typed)
{
  AUTO_BUFFER buffer tensor = BUFFER_EMPTY, shape = BUFFER_EMPTY, data = BUFFER_EMPTY;
  AUTO_BUFFER buffer contents = BUFFER_EMPTY;
  char *numbers = buffer_reserve(&data, count * 8 + 1);
  CHECK(numbers != NULL);
  data.size = typed ? count : count * 8; // zero is one byte
  memset(numbers, 0, data.size);
  put_varint(&shape, count);
  put_bytes(&tensor, 1, SLICE("INPUT0"));
  put_bytes(&tensor, 2, SLICE("INT64"));
  put_bytes(&tensor, 3, buffer_view(&shape));
  put_bytes(&contents, 3, buffer_view(&data));
  if (typed)
    put_bytes(&tensor, 5, buffer_view(&contents));
  put_bytes(to, 1, slice_of(model));
  put_bytes(to, 3, SLICE("id"));
  put_bytes(to, 5, buffer_view(&tensor));
  if (!typed)
    put_bytes(to, 7, buffer_view(&data));
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
  message_coding coding = (how & MESSAGE_GZIPPED) != 0 ? MESSAGE_GZIP : MESSAGE_DEFLATE;
  CHECK(!packs || message_deflate(coding, 1, &payload, 1, &packed));
  put_message(&bytes, stream, (how & MESSAGE_LAST) != 0 ? END_STREAM : 0,
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
  put_infer(&text, models[about & 3], count, (about & 4) != 0);
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
  for (size_t i = 0; i < times && many.size < MOST_SENT / 4; i++)
    buffer_append_slice(&many, buffer_view(&s->last));
  send_all(s, buffer_view(&many));
}

static void let_time_pass(session *s)
{
  listener_advance(MS << fuzz_byte(&s->input) % 24);
  pass(s);
}

static void run_job(session *s)
{
  listener_run_job();
  pass(s);
}

// The instance's thread may have yet to get there.
static void answer(session *s)
{
  uint8_t how = fuzz_byte(&s->input);
  if (!core_answer(how)) {
    listener_wait();
    core_answer(how);
  }
  pass(s);
}

static void change_reading(session *s)
{
  s->deaf = !s->deaf;
  pass(s);
}

static void ask_to_leave(session *s)
{
  listener_leave();
  pass(s);
}

static void leave(session *s)
{
  if (s->fd >= 0)
    close(s->fd);
  s->fd = -1;
  pass(s);
}

static void half_leave(session *s)
{
  if (s->fd >= 0)
    shutdown(s->fd, SHUT_WR);
  pass(s);
}

static void (*const steps[])(session *s) = {send_raw,      send_frame, open_call,   send_message,
                                            send_infer,    send_reset, send_window, send_again,
                                            let_time_pass, run_job,    answer,      change_reading,
                                            ask_to_leave,  leave,      half_leave};

// ---- a session ----

static void begin(session *s)
{
  s->fd = listener_connect();
  pass(s);
}

// Whatever is left of a session ends when its client goes and the core has answered.
static void end(session *s)
{
  leave(s);
  for (int i = 0; !listener_is_idle(); i++) {
    CHECK(i < 10000);
    while (listener_run_job())
      ;
    bool answered = false;
    while (core_answer(1))
      answered = true;
    if (!answered)
      listener_wait();
    listener_pass();
  }
  replies_fini(&s->replies);
  buffer_fini(&s->last);
}

static void greet(session *s)
{
  buffer bytes = BUFFER_EMPTY;
  buffer_append_text(&bytes, PREFACE);
  put_frame(&bytes, NGHTTP2_SETTINGS, 0, 0, (slice){"", 0});
  send_owned(s, &bytes);
}

static void be_hostile(fuzz_input input, bool greets, size_t piece)
{
  session s = {.input = input, .piece = piece};
  begin(&s);
  if (greets)
    greet(&s);
  for (int i = 0; i < MOST_STEPS && s.input.size > 0; i++)
    steps[fuzz_byte(&s.input) % (sizeof(steps) / sizeof(steps[0]))](&s);
  end(&s);
}

// An honest client: live, and one inference.
static void be_honest(void)
{
  session s = {.piece = SIZE_MAX};
  buffer bytes = BUFFER_EMPTY;
  AUTO_BUFFER buffer request = BUFFER_EMPTY;
  begin(&s);
  greet(&s);
  put_infer(&request, "identity", 16, false);
  put_request(&bytes, "/inference.GRPCInferenceService/ServerLive", 0, 1);
  put_message(&bytes, 1, END_STREAM, 0, SLICE(""));
  put_request(&bytes, "/inference.GRPCInferenceService/ModelInfer", 0, 3);
  put_message(&bytes, 3, END_STREAM, 0, buffer_view(&request));
  send_owned(&s, &bytes);
  for (int i = 0; s.replies.ended < 2; i++) {
    CHECK(i < 10000);
    listener_wait();
    pass(&s);
  }
  CHECK(s.replies.streams[0].messages == 1 && s.replies.streams[1].messages == 1);
  CHECK(s.replies.bytes > 16 * 8);
  end(&s);
}

// What of the listener an input may choose.
static grpc_server_options options_of(unsigned how)
{
  static header_forward *forward;
  CHECK(forward != NULL || header_forward_new("forward-.*", &forward) == NULL);
  return (grpc_server_options){.keepalive_time_ms = (how & 1) != 0 ? 1000 : 7200000,
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
  grpc_server_options options = options_of(how);
  CHECK(trace_config_init(&config) == NULL);
  CHECK(trace_service_new(&config, &options.trace) == NULL);
  options.shared_memory = shared_memory_new(false);
  CHECK(options.shared_memory != NULL);
  listener_begin(&options, BUDGET, core);
  be_hostile(input, (how & 32) == 0, piece == 0 ? SIZE_MAX : piece * piece);
  be_honest();
  listener_end();
  shared_memory_free(options.shared_memory);
  trace_service_free(options.trace);
  trace_config_fini(&config);
  core_reset_log();
  return 0;
}
