// SPDX-License-Identifier: Apache-2.0
// The registry of HTTP's connections: who is told of a client that left, who is closed, who is
// beyond the limit. Connections are halves of socket pairs, exchanges are the test's.
#include "frontend/http/transport/http_registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MANY 150 // more than are cancelled at a time

struct exchange {
  int references;
  int cancelled;
};

typedef struct half {
  connection *c;
  int socket_fd; // the connection's
  int client_fd;
} half;

typedef struct fixture {
  listener listener;
  connections *all;
} fixture;

static const char owners[2];
#define LOOP(i) ((const loop *)&owners[i])

static void ref(exchange *x)
{
  x->references++;
}

static void unref(exchange *x)
{
  x->references--;
}

static void cancel(exchange *x)
{
  assert_true(x->references > 0);
  x->cancelled++;
}

static NEREID_LogSubject subject(const exchange *x)
{
  (void)x;
  return (NEREID_LogSubject){0};
}

static const exchange_calls calls = {
    .ref = ref, .unref = unref, .cancel = cancel, .subject = subject};

static int begin(void **state)
{
  static fixture f;
  f = (fixture){.listener = {.options = {.connection_limit = 2,
                                         .max_input_size = 1024,
                                         .min_rate = 1000,
                                         .header_timeout_ms = 1000,
                                         .body_timeout_ms = 2000}}};
  assert_null(connections_new(&f.listener, &calls, (library_traits){0}, &f.all));
  *state = &f;
  return 0;
}

static int end(void **state)
{
  fixture *f = *state;
  connections_free(f->all);
  return 0;
}

static half open_half(fixture *f, const loop *owner)
{
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  half h = {connection_open(f->all, owner, fds[0], NULL, NULL), fds[0], fds[1]};
  assert_non_null(h.c);
  return h;
}

static void close_half(half h)
{
  connection_close(h.c);
  close(h.socket_fd);
  close(h.client_fd);
}

static bool is_shut(half h)
{
  char byte;
  return recv(h.client_fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void let_pass(half h, uint64_t ms)
{
  atomic_store(&h.c->since_ms, connections_now_ms() - ms);
}

// No time passes for the connection, however late the watcher is.
static void hold(half h)
{
  atomic_store(&h.c->since_ms, UINT64_MAX / 2);
}

static void a_client_that_leaves_cancels_what_runs_for_it(void **state)
{
  fixture *f = *state;
  exchange x = {0};
  half h = open_half(f, LOOP(0));
  assert_false(connection_set_exchange(h.c, &x));
  connections_client_left(f->all, h.c->tag);
  assert_int_equal(x.cancelled, 1);
  assert_int_equal(x.references, 0);
  assert_true(connection_set_exchange(h.c, NULL)); // who comes later is told
  connections_client_left(f->all, h.c->tag);
  assert_int_equal(x.cancelled, 1);
  close_half(h);
}

static void an_event_of_a_closed_connection_is_of_nobody(void **state)
{
  fixture *f = *state;
  exchange x = {0};
  half before = open_half(f, LOOP(0));
  uint64_t tag = before.c->tag;
  connection_close(before.c);
  connections_client_left(f->all, tag);
  before.c = connection_open(f->all, LOOP(0), before.socket_fd, NULL, NULL); // the same descriptor
  assert_false(connection_set_exchange(before.c, &x));
  connections_client_left(f->all, tag);
  assert_int_equal(x.cancelled, 0);
  assert_false(connection_set_exchange(before.c, NULL));
  close_half(before);
}

static void a_client_that_the_server_sends_away_has_not_left(void **state)
{
  fixture *f = *state;
  exchange x = {0};
  char text[16];
  half h = open_half(f, LOOP(0));
  connection_set_exchange(h.c, &x);
  connection_refuse(h.c, "no", 2, 0);
  connections_client_left(f->all, h.c->tag);
  assert_int_equal(x.cancelled, 0);
  assert_int_equal(recv(h.client_fd, text, sizeof(text), 0), 2);
  assert_memory_equal(text, "no", 2);
  close_half(h);
}

static void all_are_cancelled_once(void **state)
{
  fixture *f = *state;
  static exchange x[MANY];
  half h[MANY];
  memset(x, 0, sizeof(x));
  for (size_t i = 0; i < MANY; i++) {
    h[i] = open_half(f, LOOP(0));
    connection_set_exchange(h[i].c, &x[i]);
  }
  connections_cancel_all(f->all);
  connections_cancel_all(f->all);
  for (size_t i = 0; i < MANY; i++) {
    assert_int_equal(x[i].cancelled, 1);
    assert_int_equal(x[i].references, 0);
    close_half(h[i]);
  }
}

static void who_has_no_request_is_closed(void **state)
{
  fixture *f = *state;
  half idle = open_half(f, LOOP(0)), others = open_half(f, LOOP(1)), busy = open_half(f, LOOP(0)),
       sent = open_half(f, LOOP(0));
  assert_true(connection_enter(busy.c, CONNECTION_BODY));
  assert_int_equal(send(sent.client_fd, "G", 1, 0), 1);
  connections_close_idle(f->all, LOOP(0));
  assert_true(is_shut(idle));
  assert_false(is_shut(others) || is_shut(busy) || is_shut(sent));
  assert_false(connection_enter(idle.c, CONNECTION_HEADERS)); // no request begins there
  assert_true(connection_enter(sent.c, CONNECTION_HEADERS));
  assert_int_equal(atomic_load(&idle.c->state), CONNECTION_CLOSED);
  assert_int_equal(atomic_load(&f->all->count), 4);
  close_half(idle);
  close_half(others);
  close_half(busy);
  close_half(sent);
}

static void a_connection_is_surplus_while_there_are_too_many(void **state)
{
  fixture *f = *state;
  half first = open_half(f, LOOP(0)), second = open_half(f, LOOP(0)), third = open_half(f, LOOP(0));
  assert_false(connection_is_surplus(first.c) || connection_is_surplus(second.c));
  assert_true(connection_is_surplus(third.c));
  close_half(first);
  assert_false(connection_is_surplus(third.c));
  assert_ptr_equal(connections_find(f->all, third.socket_fd), third.c);
  close_half(second);
  close_half(third);
}

static void await_shut(half h)
{
  char byte;
  assert_int_equal(recv(h.client_fd, &byte, 1, 0), 0);
}

static void who_waits_too_long_is_shut_down(void **state)
{
  static char address[] = "127.0.0.1"; // nobody comes there
  fixture *f = *state;
  half headers = open_half(f, LOOP(0)), body = open_half(f, LOOP(0)),
       moving = open_half(f, LOOP(0)), running = open_half(f, LOOP(0));
  assert_true(connection_enter(body.c, CONNECTION_BODY));
  assert_true(connection_enter(moving.c, CONNECTION_BODY));
  assert_true(connection_enter(running.c, CONNECTION_BODY));
  assert_true(connection_enter(running.c, CONNECTION_RUNNING));
  let_pass(headers, 1500);
  let_pass(body, 2500);
  let_pass(moving, 2500);
  let_pass(running, 100000);
  const uint64_t before_ms = connections_now_ms();
  connection_received(body.c, 1999);
  connection_received(moving.c, 1000);
  connection_received(moving.c, 1000); // 1000 bytes a second are progress
  assert_true(atomic_load(&moving.c->since_ms) >= before_ms);
  hold(moving);
  assert_null(listen_open(&(listen_options){.address = address}, &f->listener.socket));
  assert_null(connections_watch(f->all, NULL));
  await_shut(headers);
  await_shut(body);
  assert_false(is_shut(moving) || is_shut(running));
  connections_unwatch(f->all);
  listen_fini(&f->listener.socket);
  close_half(headers);
  close_half(body);
  close_half(moving);
  close_half(running);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      TEST(a_client_that_leaves_cancels_what_runs_for_it),
      TEST(an_event_of_a_closed_connection_is_of_nobody),
      TEST(a_client_that_the_server_sends_away_has_not_left),
      TEST(all_are_cancelled_once),
      TEST(who_has_no_request_is_closed),
      TEST(a_connection_is_surplus_while_there_are_too_many),
      TEST(who_waits_too_long_is_shut_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
