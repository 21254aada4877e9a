// SPDX-License-Identifier: Apache-2.0
// One HTTP request over a Unix socket for each question; see operator_command.h.
#include "daemon/operator_command.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/commands.h"
#include "daemon/error_line.h"
#include "frontend/common/net/listen.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_SECONDS  60 // the server may ask all its models
#define ASK_AGAIN_NS    UINT64_C(100000000)
#define MAX_REPLY_BYTES 65536
#define NS_PER_SECOND   UINT64_C(1000000000)

#define STATUS_PATH "/v2/nereid/status"

// ---- the question ----

static error *no_address(const daemon_options *o)
{
  if (o->admin_address[0] != '\0')
    return error_new(ERROR_INVALID_ARG,
                     "--admin-address: '%s', expected the running server's, unix:/<path>",
                     o->admin_address);
  if (o->config_file[0] != '\0')
    return error_new(ERROR_INVALID_ARG,
                     "'%s' has no admin-address: a server can be asked at that address only, "
                     "unix:/<path>",
                     o->config_file);
  return error_new(ERROR_INVALID_ARG,
                   "expected --admin-address=unix:/<path>, the running server's, or "
                   "--config=<file> with it");
}

static error *no_server(const char *address, int reason)
{
  const char *advice = reason == ENOENT || reason == ECONNREFUSED
                           ? "; no server with this --admin-address runs"
                           : "";
  return error_new(ERROR_UNAVAILABLE, "cannot connect to a server at '%s': %s%s", address,
                   strerror(reason), advice);
}

static error *connect_to(const daemon_options *o, int *result)
{
  const char *address = o->admin_address;
  struct sockaddr_un to;
  socklen_t size;
  const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
  const char *path = listen_is_unix(address) ? address + sizeof(LISTEN_UNIX_PREFIX) - 1 : "";
  AUTO_ERROR error *bad = listen_unix_address(path, &to, &size);
  if (bad != NULL)
    return no_address(o);
  int s AUTO_CLOSE = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0 || setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) != 0 ||
      connect(s, (const struct sockaddr *)&to, size) != 0)
    return no_server(address, errno);
  *result = s;
  s = -1;
  return NULL;
}

// Reads until the server closes; what is too long is no answer of a server.
static error *converse(int s, const char *request, buffer *reply)
{
  if (send(s, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
    return error_new(ERROR_UNAVAILABLE, "the server takes no request: %s", strerror(errno));
  for (ssize_t size = 1; size > 0 && reply->size < MAX_REPLY_BYTES;) {
    char *room = buffer_reserve(reply, MAX_REPLY_BYTES);
    if (room == NULL)
      return error_no_memory();
    size = recv(s, room, MAX_REPLY_BYTES, 0);
    if (size < 0)
      return error_new(ERROR_UNAVAILABLE, "the server gives no answer: %s", strerror(errno));
    reply->size += (size_t)size;
  }
  return NULL;
}

// The JSON of a reply with status 200; else what its "error" says.
static error *read_reply(buffer *reply, json_t **answer)
{
  static const char good[] = "HTTP/1.1 200 ";
  json_error_t unused;
  buffer_append_char(reply, '\0');
  if (reply->failed)
    return error_no_memory();
  const char *body = strstr(reply->data, "\r\n\r\n");
  json_t *object = body == NULL ? NULL : json_loads(body + 4, 0, &unused);
  if (strncmp(reply->data, good, sizeof(good) - 1) == 0 && object != NULL) {
    *answer = object;
    return NULL;
  }
  const char *told = json_string_value(json_object_get(object, "error"));
  error *e = error_new(ERROR_UNAVAILABLE, "the server answers: %s",
                       told != NULL ? told : "not in HTTP with JSON, it may be another program");
  json_decref(object);
  return e;
}

static error *ask(const daemon_options *o, const char *method, const char *path, json_t **answer)
{
  AUTO_BUFFER buffer request = BUFFER_EMPTY, reply = BUFFER_EMPTY;
  int s AUTO_CLOSE = -1;
  if (o->words.count > 0)
    return error_new(ERROR_INVALID_ARG, "nereid %s takes no words but flags, not '%s'",
                     o->command->name, o->words.items[0]);
  buffer_append_format(&request,
                       "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       "Content-Length: 0\r\n\r\n",
                       method, path);
  buffer_append_char(&request, '\0');
  if (request.failed)
    return error_no_memory();
  RETURN_IF_ERROR(connect_to(o, &s));
  RETURN_IF_ERROR(converse(s, request.data, &reply));
  return read_reply(&reply, answer);
}

// ---- the answer ----

static bool is_true(const json_t *answer, const char *member)
{
  return json_is_true(json_object_get(answer, member));
}

static json_int_t number(const json_t *answer, const char *member)
{
  return json_integer_value(json_object_get(answer, member));
}

static void print(const daemon_options *o, const json_t *answer)
{
  if (o->at_server.json) {
    json_dumpf(answer, stdout, JSON_COMPACT);
    putchar('\n');
    return;
  }
  printf("%s, %" JSON_INTEGER_FORMAT " requests inside, up for %" JSON_INTEGER_FORMAT " s\n",
         is_true(answer, "drained") ? "drained"
         : is_true(answer, "ready") ? "ready"
                                    : "not ready",
         number(answer, "requests"), number(answer, "uptime_seconds"));
}

static int fail(error *e_owned)
{
  error_line_print(e_owned);
  error_free(e_owned);
  return OPERATOR_FAILED;
}

// Prints the answer; the exit status says whether the server is ready.
static int ask_and_print(const daemon_options *o, const char *method, const char *path)
{
  json_t *answer;
  error *e = ask(o, method, path, &answer);
  if (e != NULL)
    return fail(e);
  print(o, answer);
  bool ready = is_true(answer, "ready");
  json_decref(answer);
  return ready ? EXIT_SUCCESS : EXIT_FAILURE;
}

int status_run(daemon_options *o)
{
  return ask_and_print(o, "GET", STATUS_PATH);
}

int undrain_run(daemon_options *o)
{
  return ask_and_print(o, "POST", "/v2/nereid/undrain");
}

int drain_run(daemon_options *o)
{
  uint64_t deadline = clock_monotonic_ns() + (uint64_t)o->at_server.wait_seconds * NS_PER_SECOND;
  json_t *answer;
  error *e = ask(o, "POST", "/v2/nereid/drain", &answer);
  while (e == NULL && number(answer, "requests") > 0 && clock_monotonic_ns() < deadline) {
    json_decref(answer);
    clock_sleep_until(clock_monotonic_ns() + ASK_AGAIN_NS);
    e = ask(o, "GET", STATUS_PATH, &answer);
  }
  if (e != NULL)
    return fail(e);
  print(o, answer);
  bool empty = number(answer, "requests") == 0 || o->at_server.wait_seconds == 0;
  json_decref(answer);
  return empty ? EXIT_SUCCESS : EXIT_FAILURE;
}
