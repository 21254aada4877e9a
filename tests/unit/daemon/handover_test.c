// SPDX-License-Identifier: Apache-2.0
// Handing sockets over: the messages of two servers, and whose address a socket is at.
#include "daemon/handover_link.h"
#include "daemon/handover_message.h"
#include "frontend/common/net/listen.h"

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

// ---- messages ----

static json_t *read_message(const char *text)
{
  json_t *message = NULL;
  assert_null(handover_message_read(slice_of(text), &message));
  return message;
}

static void assert_bad_sockets(const char *text, size_t fd_count)
{
  static const int fds[HANDOVER_SOCKETS + 1] = {-1, -1, -1, -1, -1, -1, -1, -1, -1};
  handover_sockets sockets;
  json_t *message = read_message(text);
  AUTO_ERROR error *e = handover_read_sockets(message, fds, fd_count, &sockets);
  if (e == NULL)
    fail_msg("%s is taken", text);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  json_decref(message);
}

static void sockets_arrive_as_they_were(void **state)
{
  (void)state;
  const int fds[] = {100, 101};
  const handover_sockets sent = {2,
                                 {{.name = "http", .by_manager = true},
                                  {.name = "admin-http", .device = 7, .file = UINT64_MAX / 2}}};
  handover_sockets came;
  json_t *message = handover_print_sockets(&sent);
  assert_null(handover_message_expect(message, "sockets"));
  assert_null(handover_read_sockets(message, fds, 2, &came));
  json_decref(message);
  assert_int_equal(came.count, 2);
  assert_string_equal(came.of[0].name, "http");
  assert_true(came.of[0].by_manager && came.of[0].fd == 100 && came.of[0].file == 0);
  assert_true(!came.of[1].by_manager && came.of[1].device == 7);
  assert_true(came.of[1].file == UINT64_MAX / 2);
  assert_ptr_equal(handover_find(&came, "admin-http"), &came.of[1]);
  assert_null(handover_find(&came, "admin"));
  came.of[1].fd = -1;
  assert_null(handover_find(&came, "admin-http"));
}

#define ONE(name) "{\"name\":\"" name "\",\"by_manager\":false,\"device\":0,\"file\":0}"

static void malformed_sockets_are_refused(void **state)
{
  (void)state;
  assert_bad_sockets("{\"sockets\":{}}", 0);
  assert_bad_sockets("{\"sockets\":[" ONE("http") "]}", 0);
  assert_bad_sockets("{\"sockets\":[]}", 1);
  assert_bad_sockets("{\"sockets\":[1]}", 1);
  assert_bad_sockets("{\"sockets\":[" ONE("sixteen_letters_") "]}", 1);
  assert_bad_sockets("{\"sockets\":[{\"name\":\"http\",\"by_manager\":0,\"device\":0,\"file\":0}]}",
                     1);
  assert_bad_sockets("{\"sockets\":[{\"name\":\"http\",\"by_manager\":true,\"file\":0}]}", 1);
  assert_bad_sockets("{\"sockets\":[1,2,3,4,5,6,7,8,9]}", 9);
}

static void other_messages_are_told_apart(void **state)
{
  (void)state;
  json_t *message = NULL;
  static const char *const bad[] = {"", "[]", "1", "{", "{}}", "{\"a\":1,\"a\":2}", "\x80"};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    AUTO_ERROR error *e = handover_message_read(slice_of(bad[i]), &message);
    assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
    assert_null(message);
  }
  message = read_message("{\"refused\":\"because\",\"go\":true}");
  AUTO_ERROR error *refused = handover_message_expect(message, "go");
  assert_string_equal(error_message(refused), "because");
  json_decref(message);
  message = read_message("{\"serving\":[]}");
  AUTO_ERROR error *other = handover_message_expect(message, "go");
  assert_int_equal(error_get_code(other), ERROR_INVALID_ARG);
  json_decref(message);
}

// ---- the link ----

static void open_pair(handover_link *a, handover_link *b)
{
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  assert_null(handover_link_open(a, fds[0]));
  assert_null(handover_link_open(b, fds[1]));
  assert_int_equal(a->peer, getpid());
}

static void descriptors_come_with_their_message(void **state)
{
  (void)state;
  handover_link a, b;
  json_t *message;
  open_pair(&a, &b);
  assert_null(handover_link_read(&b));
  assert_null(handover_link_take(&b, &message));
  assert_null(message);
  const int sent[] = {STDERR_FILENO, STDOUT_FILENO};
  assert_null(handover_link_send(&a, json_pack("{s:b}", "go", true), sent, 2));
  assert_null(handover_link_send(&a, json_pack("{s:b}", "done", true), NULL, 0));
  while (b.input.size < sizeof("{\"go\":true}") + sizeof("{\"done\":true}"))
    assert_null(handover_link_read(&b));
  assert_int_equal(b.fd_count, 2);
  assert_null(handover_link_take(&b, &message));
  assert_null(handover_message_expect(message, "go"));
  json_decref(message);
  assert_null(handover_link_take(&b, &message));
  assert_null(handover_message_expect(message, "done"));
  json_decref(message);
  handover_link_close(&b);
  handover_link_close(&b);
  handover_link_close(&a);
}

static void a_link_that_ends_says_so(void **state)
{
  (void)state;
  handover_link a, b;
  json_t *message;
  open_pair(&a, &b);
  assert_true(handover_link_is_alive(&b));
  assert_null(handover_link_send(&a, json_pack("{s:s}", "refused", "too late"), NULL, 0));
  handover_link_close(&a);
  assert_false(handover_link_is_alive(&b));
  AUTO_ERROR error *refused =
      handover_link_ask(&b, json_pack("{s:b}", "ready", true), "go", &message);
  assert_string_equal(error_message(refused), "too late");
  assert_null(message);
  AUTO_ERROR error *gone = handover_link_read(&b);
  assert_true(gone != NULL && b.ended);
  handover_link_close(&b);
}

static void too_many_descriptors_are_refused(void **state)
{
  (void)state;
  handover_link a, b;
  open_pair(&a, &b);
  int sent[HANDOVER_SOCKETS];
  for (size_t i = 0; i < HANDOVER_SOCKETS; i++)
    sent[i] = STDERR_FILENO;
  assert_null(handover_link_send(&a, json_object(), sent, HANDOVER_SOCKETS));
  assert_null(handover_link_send(&a, json_object(), sent, 1));
  assert_null(handover_link_read(&b));
  AUTO_ERROR error *e = handover_link_read(&b);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_int_equal(b.fd_count, HANDOVER_SOCKETS);
  handover_link_close(&b);
  handover_link_close(&a);
}

// ---- addresses ----

static bool is_at(char *address, unsigned port, const listen_socket *s)
{
  const listen_options wanted = {.address = address, .port = port};
  return listen_is_at(&wanted, s->socket_fd, s->device, s->file);
}

static void a_port_is_known_by_its_address(void **state)
{
  (void)state;
  listen_socket s;
  char local[] = "127.0.0.1", any[] = "0.0.0.0", bracketed[] = "[::1]", path[] = "unix:/tmp/x";
  char nonsense[] = "no such host!";
  const listen_options options = {.address = local};
  assert_null(listen_open(&options, &s));
  const unsigned port = (unsigned)strtoul(strrchr(s.where, ':') + 1, NULL, 10);
  assert_true(is_at(local, port, &s) && is_at(local, 0, &s));
  assert_false(is_at(local, port + 1, &s));
  assert_false(is_at(any, port, &s) || is_at(bracketed, port, &s) || is_at(path, port, &s));
  assert_false(is_at(nonsense, port, &s));
  assert_false(listen_is_at(&options, STDERR_FILENO, 0, 0));
  listen_fini(&s);
}

static void a_unix_socket_is_known_by_its_file(void **state)
{
  (void)state;
  listen_socket s, given;
  char path[64], other[80], address[80];
  snprintf(path, sizeof(path), "/tmp/handover_test.%d", (int)getpid());
  snprintf(address, sizeof(address), "unix:%s", path);
  const listen_options options = {.address = address};
  assert_null(listen_open(&options, &s));
  assert_true(is_at(address, 0, &s));
  const listen_options second = {
      .given = dup(s.socket_fd), .given_device = s.device, .given_file = s.file};
  assert_null(listen_open(&second, &given));
  listen_remove(&given); // which is lent
  assert_int_equal(access(path, F_OK), 0);
  listen_lend(&s);
  listen_own(&given);
  listen_fini(&s);
  assert_int_equal(access(path, F_OK), 0);
  assert_true(is_at(address, 0, &given));
  snprintf(other, sizeof(other), "%s_", path);
  assert_int_equal(rename(path, other), 0);
  assert_false(is_at(address, 0, &given));
  assert_int_equal(unlink(other), 0);
  listen_fini(&given);
}

static void an_abstract_socket_is_known_by_its_name(void **state)
{
  (void)state;
  listen_socket s;
  char address[64], other[80];
  snprintf(address, sizeof(address), "unix:@handover_test.%d", (int)getpid());
  snprintf(other, sizeof(other), "%s_", address);
  const listen_options options = {.address = address};
  assert_null(listen_open(&options, &s));
  assert_true(is_at(address, 0, &s));
  assert_false(is_at(other, 0, &s));
  listen_fini(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sockets_arrive_as_they_were),
      cmocka_unit_test(malformed_sockets_are_refused),
      cmocka_unit_test(other_messages_are_told_apart),
      cmocka_unit_test(descriptors_come_with_their_message),
      cmocka_unit_test(a_link_that_ends_says_so),
      cmocka_unit_test(too_many_descriptors_are_refused),
      cmocka_unit_test(a_port_is_known_by_its_address),
      cmocka_unit_test(a_unix_socket_is_known_by_its_file),
      cmocka_unit_test(an_abstract_socket_is_known_by_its_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
