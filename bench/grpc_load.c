// SPDX-License-Identifier: Apache-2.0
// A load generator for gRPC: one message over and over, as unary calls or on streams.
//
//     grpc_load PORT METHOD BODY-FILE CONNECTIONS IN-FLIGHT SECONDS [stream]
//
// Each connection to 127.0.0.1 keeps IN-FLIGHT calls (or, with `stream`, requests of one call) on
// their way. Prints "RESULT requests microseconds errors p50 p99", times in microseconds. Made for
// bench.py: it expects servers that behave.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WINDOW     (64 << 20)
#define MAX_FRAME  (1 << 20)
#define MAX_TIMES  (32u << 20)
#define READ_BYTES (1u << 20)

typedef struct request {
  uint64_t began_us;
  size_t sent;   // bytes of the body, of a unary call
  bool answered; // with status 0
} request;

typedef struct client {
  int fd;
  nghttp2_session *session;
  int32_t stream;  // of a streaming client
  uint64_t *begun; // its requests in flight, oldest first: a ring of in_flight entries
  size_t oldest, count;
  size_t sent;  // bytes of the message that is being sent
  bool sending; // one is
  unsigned char prefix[5];
  size_t prefix_size, left; // of the reply message that is being read
} client;

static struct {
  uint16_t port;
  const char *method;
  char *body;
  size_t body_size;
  size_t in_flight;
  bool streams;
  bool over;
  uint64_t requests, errors;
  uint32_t *times; // microseconds
} load;

static void die(const char *what)
{
  perror(what);
  exit(1);
}

static uint64_t now_us(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void count(uint64_t began_us, bool good)
{
  if (!good)
    load.errors++;
  else if (load.requests < MAX_TIMES)
    load.times[load.requests++] = (uint32_t)(now_us() - began_us);
}

// ---- what is sent ----

static ssize_t give_body(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                         uint32_t *flags, nghttp2_data_source *source, void *pointer)
{
  (void)session;
  (void)id;
  (void)pointer;
  request *r = source->ptr;
  size_t left = load.body_size - r->sent;
  size_t size = left < room ? left : room;
  memcpy(to, load.body + r->sent, size);
  r->sent += size;
  if (r->sent == load.body_size)
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  return (ssize_t)size;
}

static ssize_t give_messages(nghttp2_session *session, int32_t id, uint8_t *to, size_t room,
                             uint32_t *flags, nghttp2_data_source *source, void *pointer)
{
  (void)session;
  (void)id;
  (void)source;
  client *c = pointer;
  size_t given = 0;
  while (given < room) {
    if (!c->sending) {
      if (load.over || c->count == load.in_flight)
        break;
      c->begun[(c->oldest + c->count++) % load.in_flight] = now_us();
      c->sending = true;
      c->sent = 0;
    }
    size_t left = load.body_size - c->sent;
    size_t size = left < room - given ? left : room - given;
    memcpy(to + given, load.body + c->sent, size);
    c->sent += size;
    given += size;
    c->sending = c->sent < load.body_size;
  }
  if (given == 0 && load.over)
    *flags |= NGHTTP2_DATA_FLAG_EOF;
  else if (given == 0)
    return NGHTTP2_ERR_DEFERRED;
  return (ssize_t)given;
}

#define FIELD(name, value)                                                                         \
  {                                                                                                \
    (uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE       \
  }

static void call(client *c)
{
  const nghttp2_nv fields[] = {FIELD(":method", "POST"),
                               FIELD(":scheme", "http"),
                               FIELD(":path", load.method),
                               FIELD(":authority", "127.0.0.1"),
                               FIELD("te", "trailers"),
                               FIELD("content-type", "application/grpc"),
                               FIELD("user-agent", "nereid-load"),
                               FIELD("grpc-accept-encoding", "identity")};
  request *r = calloc(1, sizeof(*r));
  r->began_us = now_us();
  nghttp2_data_provider data = {.source.ptr = r,
                                .read_callback = load.streams ? give_messages : give_body};
  c->stream =
      nghttp2_submit_request(c->session, NULL, fields, sizeof(fields) / sizeof(*fields), &data, r);
  if (c->stream < 0)
    die("submit");
}

// ---- what comes ----

static void answered(client *c)
{
  count(c->begun[c->oldest], true);
  c->oldest = (c->oldest + 1) % load.in_flight;
  c->count--;
}

static int take_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data,
                     size_t size, void *pointer)
{
  (void)flags;
  client *c = pointer;
  if (!load.streams)
    return 0;
  while (size > 0) {
    if (c->prefix_size < sizeof(c->prefix)) {
      c->prefix[c->prefix_size++] = *data++;
      size--;
      if (c->prefix_size == sizeof(c->prefix))
        c->left = (size_t)c->prefix[1] << 24 | (size_t)c->prefix[2] << 16 |
                  (size_t)c->prefix[3] << 8 | c->prefix[4];
    }
    size_t step = c->prefix_size < sizeof(c->prefix) ? 0 : size < c->left ? size : c->left;
    data += step;
    size -= step;
    c->left -= step;
    if (c->prefix_size == sizeof(c->prefix) && c->left == 0) {
      c->prefix_size = 0;
      answered(c);
    }
  }
  nghttp2_session_resume_data(session, id);
  return 0;
}

static int take_field(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                      size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                      void *pointer)
{
  (void)flags;
  (void)pointer;
  request *r = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
  if (r != NULL && name_size == 11 && memcmp(name, "grpc-status", 11) == 0)
    r->answered = value_size == 1 && *value == '0';
  return 0;
}

static int stream_closed(nghttp2_session *session, int32_t id, uint32_t error_code, void *pointer)
{
  client *c = pointer;
  request *r = nghttp2_session_get_stream_user_data(session, id);
  bool good = error_code == NGHTTP2_NO_ERROR && r->answered;
  if (!load.streams)
    count(r->began_us, good);
  else if (!good)
    load.errors++;
  free(r);
  if (!load.over && !load.streams)
    call(c);
  return 0;
}

// ---- a connection ----

static void connect_client(client *c)
{
  struct sockaddr_in where = {.sin_family = AF_INET,
                              .sin_port = htons(load.port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int on = 1;
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&where, sizeof(where)) != 0)
    die("connect");
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  nghttp2_session_callbacks *callbacks;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, take_data);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, take_field);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, stream_closed);
  nghttp2_session_client_new(&c->session, callbacks, c);
  nghttp2_session_callbacks_del(callbacks);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
                                             {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, MAX_FRAME},
                                             {NGHTTP2_SETTINGS_ENABLE_PUSH, 0}};
  nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, 3);
  nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
  c->begun = calloc(load.in_flight, sizeof(*c->begun));
  for (size_t i = 0; i < (load.streams ? 1 : load.in_flight); i++)
    call(c);
}

// Sends what there is; false when the socket takes no more.
static bool send_some(client *c)
{
  static char pending[MAX_FRAME + (64 << 10)];
  for (;;) {
    size_t size = 0;
    const uint8_t *data;
    ssize_t more;
    while (size < (64 << 10) && (more = nghttp2_session_mem_send(c->session, &data)) > 0) {
      memcpy(pending + size, data, (size_t)more);
      size += (size_t)more;
    }
    if (size == 0)
      return true;
    for (size_t sent = 0; sent < size;) {
      ssize_t now = send(c->fd, pending + sent, size - sent, MSG_NOSIGNAL);
      if (now > 0) {
        sent += (size_t)now;
        continue;
      }
      if (errno != EAGAIN)
        die("send");
      struct pollfd room = {.fd = c->fd, .events = POLLOUT};
      poll(&room, 1, 1000);
    }
  }
}

static void receive_some(client *c)
{
  static uint8_t input[READ_BYTES];
  ssize_t size = recv(c->fd, input, sizeof(input), 0);
  if (size == 0 || (size < 0 && errno != EAGAIN))
    die("the server closed the connection");
  if (size > 0 && nghttp2_session_mem_recv(c->session, input, (size_t)size) < 0)
    die("HTTP/2");
}

static int compare(const void *a, const void *b)
{
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

static void read_body(const char *path)
{
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0)
    die(path);
  load.body_size = (size_t)ftell(file);
  rewind(file);
  load.body = malloc(load.body_size);
  if (fread(load.body, 1, load.body_size, file) != load.body_size)
    die(path);
  fclose(file);
}

int main(int count_of_arguments, char **arguments)
{
  if (count_of_arguments < 7) {
    fprintf(stderr,
            "usage: grpc_load PORT METHOD BODY-FILE CONNECTIONS IN-FLIGHT SECONDS [stream]\n");
    return 2;
  }
  load.port = (uint16_t)strtoul(arguments[1], NULL, 10);
  load.method = arguments[2];
  read_body(arguments[3]);
  size_t clients = strtoul(arguments[4], NULL, 10);
  load.in_flight = strtoul(arguments[5], NULL, 10);
  double seconds = strtod(arguments[6], NULL);
  load.streams = count_of_arguments > 7;
  load.times = malloc(MAX_TIMES * sizeof(*load.times));
  client *all = calloc(clients, sizeof(*all));
  struct pollfd *waits = calloc(clients, sizeof(*waits));
  uint64_t began = now_us(), end = began + (uint64_t)(seconds * 1e6);
  for (size_t i = 0; i < clients; i++) {
    connect_client(&all[i]);
    waits[i] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
    send_some(&all[i]);
  }
  while (now_us() < end) {
    poll(waits, clients, 100);
    for (size_t i = 0; i < clients; i++)
      if (waits[i].revents != 0) {
        receive_some(&all[i]);
        send_some(&all[i]);
      }
  }
  uint64_t took = now_us() - began;
  qsort(load.times, load.requests, sizeof(*load.times), compare);
  uint32_t p50 = load.requests == 0 ? 0 : load.times[load.requests / 2];
  uint32_t p99 = load.requests == 0 ? 0 : load.times[load.requests * 99 / 100];
  printf("RESULT %llu %llu %llu %u %u\n", (unsigned long long)load.requests,
         (unsigned long long)took, (unsigned long long)load.errors, p50, p99);
  return 0;
}
