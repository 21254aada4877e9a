// SPDX-License-Identifier: Apache-2.0
// An exchange from its head to its reply: a listener with routes of the test's own, and clients at
// its port. What the core does is left out.
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/service/http_server.h"
#include "nereid/nereid.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_INPUT 1000

typedef struct fixture {
  jobs *jobs;
  access_policy access;
  tls_identity tls;
  listener *listener;
} fixture;

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  exchange *held;
  _Atomic int steps; // exchanges whose last step ran
} suspended = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

// --- Handlers

// The server's, here.
TRITONSERVER_Error *NEREID_ServerVersionOfLabel(TRITONSERVER_Server *server, const char *model_name,
                                                const char *label, int64_t *model_version)
{
  (void)server;
  assert_string_equal(model_name, "m");
  assert_string_equal(label, "seven");
  *model_version = -77;
  return NULL;
}

static void reply_version(exchange *x)
{
  buffer_append_format(&x->text, "\"%s %" PRId64 "\"", x->parameters[PARAMETER_MODEL], x->version);
  exchange_reply_json(x);
}

static void reply_members(exchange *x)
{
  json_t *object;
  if (!exchange_parse_json(x, &object))
    return;
  buffer_append_format(&x->text, "%zu", json_object_size(object));
  exchange_reply_json(x);
}

static void fail_twice(exchange *x)
{
  assert_false(exchange_fail(x, MHD_HTTP_CONFLICT, "first \"%s\"", x->parameters[PARAMETER_MODEL]));
  assert_false(exchange_fail(x, MHD_HTTP_BAD_REQUEST, "second"));
  assert_true(exchange_is_over(x));
}

static void last_step(exchange *x)
{
  atomic_fetch_add(&suspended.steps, 1);
  exchange_reply_ok(x);
}

static void never(exchange *x)
{
  (void)x;
  fail();
}

// A job of an exchange that is over is left out, what comes after it is not.
static void fail_before_a_job(exchange *x)
{
  exchange_fail(x, MHD_HTTP_CONFLICT, "no job");
  exchange_run(x, SIZE_MAX, JOB_COMPUTES, never, last_step);
}

static void write_body(exchange *x)
{
  buffer_append_slice(&x->text, (slice){x->body.data, x->body.size});
}

static void run_job(exchange *x)
{
  exchange_run(x, SIZE_MAX, JOB_COMPUTES, write_body, exchange_reply_json);
}

static void hold(exchange *x)
{
  pthread_mutex_lock(&suspended.mutex);
  suspended.held = x;
  exchange_suspend(x, last_step);
  pthread_cond_signal(&suspended.changed);
  pthread_mutex_unlock(&suspended.mutex);
}

static const route rows[] = {
    {METHOD_GET, "/models/{model}", CATEGORY_METADATA, BODY_IGNORED, reply_version},
    {METHOD_GET, "/models/{model}/versions/{version}", CATEGORY_METADATA, BODY_IGNORED,
     reply_version},
    {METHOD_GET, "/fail/{model}", CATEGORY_METADATA, BODY_IGNORED, fail_twice},
    {METHOD_GET, "/fail", CATEGORY_METADATA, BODY_IGNORED, fail_before_a_job},
    {METHOD_GET, "/hold", CATEGORY_METADATA, BODY_IGNORED, hold},
    {METHOD_POST, "/members", CATEGORY_METADATA, BODY_JSON, reply_members},
    {METHOD_POST, "/job", CATEGORY_METADATA, BODY_JSON, run_job},
};
static const route_table routes = {.rows = rows, .count = sizeof(rows) / sizeof(rows[0])};

// --- libmicrohttpd that misreads

typedef int values_call(struct MHD_Connection *mhd, enum MHD_ValueKind kind,
                        MHD_KeyValueIteratorN take, void *context);

static _Atomic bool changes_lengths;

typedef struct filter {
  MHD_KeyValueIteratorN take;
  void *context;
} filter;

static enum MHD_Result change_length(void *filter_pointer, enum MHD_ValueKind kind,
                                     const char *name, size_t name_size, const char *value,
                                     size_t value_size)
{
  const filter *f = filter_pointer;
  bool is_length = strcmp(name, "Content-Length") == 0;
  return f->take(f->context, kind, name, name_size, is_length ? "1" : value,
                 is_length ? 1 : value_size);
}

// In the place of libmicrohttpd's.
int MHD_get_connection_values_n(struct MHD_Connection *mhd, enum MHD_ValueKind kind,
                                MHD_KeyValueIteratorN take, void *context)
{
  values_call *next = (values_call *)dlsym(RTLD_NEXT, "MHD_get_connection_values_n");
  filter f = {.take = take, .context = context};
  return atomic_load(&changes_lengths) ? next(mhd, kind, change_length, &f)
                                       : next(mhd, kind, take, context);
}

// --- Clients

static int begin(void **state)
{
  static fixture f;
  static char address[] = "127.0.0.1";
  f = (fixture){0};
  suspended.held = NULL;
  atomic_store(&suspended.steps, 0);
  assert_null(jobs_new(&f.jobs));
  const listener_options options = {.listen = {.address = address},
                                    .thread_count = 1,
                                    .connection_limit = 10,
                                    .max_input_size = MAX_INPUT,
                                    .access = &f.access,
                                    .tls = &f.tls,
                                    .jobs = f.jobs};
  assert_null(listener_new(&http_protocol, &options, NULL, &f.listener));
  http_server_of(f.listener)->routes = &routes; // nobody is connected yet
  *state = &f;
  return 0;
}

static int end(void **state)
{
  fixture *f = *state;
  listener_free(f->listener);
  jobs_free(f->jobs);
  return 0;
}

static int send_request(const fixture *f, const char *request)
{
  const struct sockaddr_in address = {
      .sin_family = AF_INET,
      .sin_port = htons((uint16_t)atoi(strrchr(listener_where(f->listener), ':') + 1)),
      .sin_addr = {htonl(INADDR_LOOPBACK)},
  };
  int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(connect(socket_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
  assert_int_equal(send(socket_fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
  return socket_fd;
}

// "<status> <body>" of the reply, behind which the server closes.
static const char *take_reply(int socket_fd)
{
  static char text[4096], reply[4096];
  size_t size = 0;
  ssize_t got;
  while ((got = recv(socket_fd, text + size, sizeof(text) - 1 - size, 0)) > 0)
    size += (size_t)got;
  close(socket_fd);
  text[size] = '\0';
  const char *body = strstr(text, "\r\n\r\n");
  assert_non_null(body);
  snprintf(reply, sizeof(reply), "%.3s %s", text + strlen("HTTP/1.1 "), body + 4);
  return reply;
}

static const char *get(const fixture *f, const char *path)
{
  char request[256];
  snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
           path);
  return take_reply(send_request(f, request));
}

static const char *post(const fixture *f, const char *path, const char *body)
{
  char request[2 * MAX_INPUT];
  snprintf(request, sizeof(request),
           "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
           path, strlen(body), body);
  return take_reply(send_request(f, request));
}

static exchange *await_held(void)
{
  pthread_mutex_lock(&suspended.mutex);
  while (suspended.held == NULL)
    pthread_cond_wait(&suspended.changed, &suspended.mutex);
  exchange *x = suspended.held;
  pthread_mutex_unlock(&suspended.mutex);
  return x;
}

// --- Tests

static void parameters_of_a_path_are_decoded(void **state)
{
  assert_string_equal(get(*state, "/models/a%20b"), "200 \"a b -1\"");
  assert_string_equal(get(*state, "/models/m/versions/07"), "200 \"m 7\"");
  assert_string_equal(get(*state, "/models/a%2fb"), "404 {\"error\":\"Not Found\"}");
  assert_string_equal(get(*state, "/models/m/versions/seven"), "200 \"m -77\"");
  assert_string_equal(get(*state, "/models/m/versions/7even"), "404 {\"error\":\"Not Found\"}");
  assert_string_equal(get(*state, "/models/m/versions/se%76en"), "404 {\"error\":\"Not Found\"}");
  assert_non_null(
      strstr(get(*state, "/models/m/versions/99999999999999999999"), "400 {\"error\":\"failed to"));
}

static void the_first_failure_is_the_reply(void **state)
{
  assert_string_equal(get(*state, "/fail/x"), "409 {\"error\":\"first \\\"x\\\"\"}");
}

static void no_job_runs_for_what_has_failed(void **state)
{
  assert_string_equal(get(*state, "/fail"), "409 {\"error\":\"no job\"}");
  assert_int_equal(atomic_load(&suspended.steps), 1);
}

static void a_body_is_an_object_or_says_nothing(void **state)
{
  assert_string_equal(post(*state, "/members", "{\"a\": 1, \"b\": [2]}"), "200 2");
  assert_string_equal(post(*state, "/members", ""), "200 0");
  assert_string_equal(post(*state, "/members", "[1, 2]"), "200 0");
  assert_string_equal(post(*state, "/members", "\xef\xbb\xbf{\"a\": 1}"), "200 1");
  assert_non_null(strstr(post(*state, "/members", "{\"a\""), "400 {\"error\":\"failed to parse"));
}

static void a_body_that_is_too_large_is_refused(void **state)
{
  char body[MAX_INPUT + 2];
  memset(body, ' ', sizeof(body));
  body[MAX_INPUT] = '\0';
  assert_non_null(strstr(post(*state, "/members", body), "400 {\"error\":\"failed to parse"));
  body[MAX_INPUT] = ' ';
  body[MAX_INPUT + 1] = '\0';
  assert_non_null(strstr(post(*state, "/members", body), "413 {\"error\":\"request JSON size"));
}

static void a_request_that_libmicrohttpd_reads_otherwise_is_refused(void **state)
{
  atomic_store(&changes_lengths, true);
  const char *reply = post(*state, "/job", "[1]");
  atomic_store(&changes_lengths, false);
  assert_string_equal(reply,
                      "400 {\"error\":\"the server can read the request in more than one way\"}");
}

static void a_job_makes_the_reply(void **state)
{
  assert_string_equal(post(*state, "/job", "[1]"), "200 [1]");
}

static void what_is_suspended_is_answered_when_it_is_resumed(void **state)
{
  int client = send_request(*state, "GET /hold HTTP/1.1\r\nConnection: close\r\n\r\n");
  exchange *x = await_held();
  assert_int_equal(atomic_load(&suspended.steps), 0);
  exchange_resume(x);
  assert_string_equal(take_reply(client), "200 ");
  assert_int_equal(atomic_load(&suspended.steps), 1);
}

static void *resume(void *x)
{
  exchange_resume(x);
  return NULL;
}

// The listener's end waits for what is suspended, whose client has left.
static void the_last_step_runs_without_a_client(void **state)
{
  fixture *f = *state;
  pthread_t thread;
  close(send_request(f, "GET /hold HTTP/1.1\r\n\r\n"));
  assert_int_equal(pthread_create(&thread, NULL, resume, await_held()), 0);
  listener_free(f->listener);
  f->listener = NULL;
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&suspended.steps), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      TEST(parameters_of_a_path_are_decoded),
      TEST(the_first_failure_is_the_reply),
      TEST(no_job_runs_for_what_has_failed),
      TEST(a_body_is_an_object_or_says_nothing),
      TEST(a_body_that_is_too_large_is_refused),
      TEST(a_request_that_libmicrohttpd_reads_otherwise_is_refused),
      TEST(a_job_makes_the_reply),
      TEST(what_is_suspended_is_answered_when_it_is_resumed),
      TEST(the_last_step_runs_without_a_client),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
