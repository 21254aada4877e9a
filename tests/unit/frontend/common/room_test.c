// SPDX-License-Identifier: Apache-2.0
// How many descriptors clients may have, and who has never sent a byte.
#include "frontend/common/net/room.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void clients_leave_some_to_operators_and_those_to_loads(void **state)
{
  (void)state;
  assert_int_equal(room_bound(1024, ROOM_CLIENTS), 768);
  assert_int_equal(room_bound(1024, ROOM_KEPT), 896);
  assert_int_equal(room_bound(256, ROOM_CLIENTS), 192);
  assert_int_equal(room_bound(256, ROOM_KEPT), 224);
  assert_int_equal(room_bound(1 << 20, ROOM_CLIENTS), (1 << 20) - 256);
  assert_int_equal(room_bound(SIZE_MAX, ROOM_CLIENTS), SIZE_MAX - 256);
}

static void a_client_is_silent_until_its_first_byte(void **state)
{
  (void)state;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(address);
  int listening = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  assert_int_equal(bind(listening, (struct sockaddr *)&address, size), 0);
  assert_int_equal(listen(listening, 1), 0);
  assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &size), 0);
  assert_int_equal(connect(client, (struct sockaddr *)&address, size), 0);
  int accepted = accept(listening, NULL, NULL);
  assert_true(room_is_silent(accepted));
  char byte = 'G';
  assert_int_equal(send(client, &byte, 1, 0), 1);
  assert_int_equal(recv(accepted, &byte, 1, 0), 1);
  assert_false(room_is_silent(accepted));
  close(client);
  close(accepted);
  close(listening);
}

static unsigned asked;

static void count_asked(room_giver *g)
{
  (void)g;
  asked++;
}

static void ports_that_joined_are_asked(void **state)
{
  (void)state;
  room_giver first = {.give = count_asked}, second = {.give = count_asked};
  room_ask(); // nobody is there
  room_join(&first);
  room_join(&second);
  room_ask();
  assert_int_equal(asked, 2);
  room_leave(&first);
  room_ask();
  assert_int_equal(asked, 3);
  room_leave(&second);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clients_leave_some_to_operators_and_those_to_loads),
      cmocka_unit_test(a_client_is_silent_until_its_first_byte),
      cmocka_unit_test(ports_that_joined_are_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
