// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include "../fuzz.h"
#include "core.h"
#include "listener.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_PIECES 4096 // then it is sent at once
#define MAX_FRAME  16384
#define WIDE_BYTES INT32_MAX
#define PREFACE    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// ---- the socket ----

static void receive(client *c)
{
  static char room[64 << 10];
  ssize_t size;
  while (c->fd >= 0 && !c->deaf && (size = recv(c->fd, room, sizeof(room), 0)) > 0)
    replies_take(&c->replies, room, (size_t)size);
}

void client_pass(client *c)
{
  listener_pass();
  receive(c);
}

void client_send(client *c, slice bytes)
{
  if (bytes.size > c->most)
    bytes.size = c->most;
  c->most -= bytes.size;
  int refused = 0;
  while (bytes.size > 0 && c->fd >= 0 && refused < 2) {
    size_t most = c->pieces++ < MAX_PIECES ? c->piece : SIZE_MAX;
    size_t size = bytes.size < most ? bytes.size : most;
    ssize_t taken = send(c->fd, bytes.data, size, MSG_NOSIGNAL);
    CHECK(taken >= 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
    refused = taken > 0 ? 0 : refused + 1;
    if (taken > 0)
      bytes = (slice){bytes.data + taken, bytes.size - (size_t)taken};
    client_pass(c);
  }
}

void client_open(client *c, size_t piece, size_t most)
{
  *c = (client){.fd = listener_connect(), .piece = piece, .most = most};
  client_pass(c);
}

void client_greet(client *c, bool wide)
{
  AUTO_BUFFER buffer bytes = BUFFER_EMPTY, settings = BUFFER_EMPTY, size = BUFFER_EMPTY;
  put_number(&settings, NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2);
  put_number(&settings, WIDE_BYTES, 4);
  put_number(&size, WIDE_BYTES - NGHTTP2_INITIAL_CONNECTION_WINDOW_SIZE, 4);
  buffer_append_text(&bytes, PREFACE);
  put_frame(&bytes, NGHTTP2_SETTINGS, 0, 0, wide ? buffer_view(&settings) : (slice){"", 0});
  if (wide)
    put_frame(&bytes, NGHTTP2_WINDOW_UPDATE, 0, 0, buffer_view(&size));
  put_frame(&bytes, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, (slice){"", 0});
  client_send(c, buffer_view(&bytes));
}

void client_leave(client *c)
{
  if (c->fd >= 0)
    close(c->fd);
  c->fd = -1;
  client_pass(c);
}

void client_end(client *c)
{
  client_leave(c);
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
  replies_fini(&c->replies);
}

// ---- frames ----

void put_number(buffer *to, size_t value, int bytes)
{
  while (bytes-- > 0)
    buffer_append_char(to, (char)(value >> 8 * bytes));
}

void put_frame(buffer *to, uint8_t type, uint8_t flags, uint32_t stream, slice payload)
{
  put_number(to, payload.size, 3);
  put_number(to, type, 1);
  put_number(to, flags, 1);
  put_number(to, stream, 4);
  buffer_append_slice(to, payload);
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

void put_request(buffer *to, const char *path, unsigned extras, uint32_t stream)
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
  put_frame(to, NGHTTP2_HEADERS, CLIENT_END_HEADERS, stream, buffer_view(&block));
}

void put_message(buffer *to, uint32_t stream, uint8_t flags, uint8_t packed, slice payload)
{
  AUTO_BUFFER buffer whole = BUFFER_EMPTY;
  put_number(&whole, packed, 1);
  put_number(&whole, payload.size, 4);
  buffer_append_slice(&whole, payload);
  for (slice left = buffer_view(&whole); left.size > 0;) {
    size_t size = left.size < MAX_FRAME ? left.size : MAX_FRAME;
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

void put_infer(buffer *to, const char *model, const char *id, size_t count, bool typed)
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
  put_bytes(to, 3, slice_of(id));
  put_bytes(to, 5, buffer_view(&tensor));
  if (!typed)
    put_bytes(to, 7, buffer_view(&data));
}
