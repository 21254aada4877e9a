// Who may do what: the route table against the checked-in page of what each route answers
// (tests/e2e/posture.txt, walked by tests/e2e/test_posture.py), and who counts as local.
#include "frontend/http/access.h"
#include "frontend/http/routes.h"
#include "frontend/protocol/peer.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#define LINES_MAX 256

static void format_row(const route *r, char *text, size_t capacity)
{
  static const char *const methods[] = {
      [METHOD_GET] = "GET", [METHOD_POST] = "POST", [METHOD_GET | METHOD_POST] = "GET,POST"};
  snprintf(text, capacity, "%s %s %s", methods[r->methods], r->path,
           route_category_name(r->category));
}

static void each_route_stands_on_the_page_and_no_other(void **state)
{
  (void)state;
  char lines[LINES_MAX][160];
  size_t line_count = 0;
  FILE *file = fopen(POSTURE, "r");
  assert_non_null(file);
  char line[256];
  while (fgets(line, sizeof(line), file) != NULL) {
    char methods[16], path[96], category[32];
    if (line[0] == '#' || sscanf(line, "%15s %95s %31s", methods, path, category) != 3)
      continue;
    assert_true(line_count < LINES_MAX);
    snprintf(lines[line_count++], sizeof(lines[0]), "%s %s %s", methods, path, category);
  }
  fclose(file);
  size_t count;
  const route *rows = routes_all(&count);
  for (size_t i = 0; i < count; i++) {
    char text[160];
    size_t at = 0;
    format_row(&rows[i], text, sizeof(text));
    while (at < line_count && strcmp(lines[at], text) != 0)
      at++;
    if (at == line_count)
      fail_msg("posture.txt has no row '%s'", text);
  }
  assert_int_equal(line_count, count);
}

static bool is_loopback(const char *text)
{
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
    return peer_is_local((const struct sockaddr *)&v4);
  assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
  return peer_is_local((const struct sockaddr *)&v6);
}

static void loopback_addresses_are_told_from_others(void **state)
{
  (void)state;
  assert_true(is_loopback("127.0.0.1"));
  assert_true(is_loopback("127.255.1.2"));
  assert_true(is_loopback("::1"));
  assert_true(is_loopback("::ffff:127.0.0.1"));
  assert_false(is_loopback("0.0.0.0"));
  assert_false(is_loopback("10.127.0.1"));
  assert_false(is_loopback("128.0.0.1"));
  assert_false(is_loopback("::"));
  assert_false(is_loopback("::2"));
  assert_false(is_loopback("::7f00:1")); // not the mapped form
  assert_false(is_loopback("::ffff:10.0.0.1"));
  assert_false(is_loopback("fe80::1"));
  struct sockaddr other = {.sa_family = AF_UNSPEC};
  assert_false(peer_is_local(&other));
  other.sa_family = AF_UNIX;
  assert_true(peer_is_local(&other));
}

static void hosts_that_name_this_machine_are_told_from_others(void **state)
{
  (void)state;
  static const char *const ours[] = {"localhost",  "localhost:8000",      "LocalHost:1",
                                     "127.0.0.1",  "127.1.2.3:80",        "[::1]",
                                     "[::1]:8000", "[::ffff:127.0.0.1]:1"};
  static const char *const others[] = {
      "",
      ":8000",
      "example.com",
      "localhost.example.com",
      "localhost.",
      "127.0.0.1.example.com",
      "127.0.0.1x",
      "0.0.0.0",
      "10.0.0.1:8000",
      "[::2]",
      "[::1",
      "::1",
      "0x7f.1",
      "2130706433",
      "127.1",
      "a-host-name-that-is-longer-than-any-address-can-be-written"};
  for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
    if (!access_names_this_machine(slice_of(ours[i])))
      fail_msg("'%s' was taken for another machine", ours[i]);
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
    if (access_names_this_machine(slice_of(others[i])))
      fail_msg("'%s' was taken for this machine", others[i]);
}

static void origins_are_compared_with_the_host(void **state)
{
  (void)state;
  slice host = SLICE("localhost:8000");
  assert_true(access_is_same_site(SLICE("http://localhost:8000"), host));
  assert_true(access_is_same_site(SLICE("https://LOCALHOST:8000"), host));
  assert_false(access_is_same_site(SLICE("http://localhost"), host));
  assert_false(access_is_same_site(SLICE("http://localhost:80001"), host));
  assert_false(access_is_same_site(SLICE("http://example.com"), host));
  assert_false(access_is_same_site(SLICE("http://example.com/://localhost:8000"), host));
  assert_false(access_is_same_site(SLICE("null"), host));
  assert_false(access_is_same_site(SLICE(""), host));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_route_stands_on_the_page_and_no_other),
      cmocka_unit_test(loopback_addresses_are_told_from_others),
      cmocka_unit_test(hosts_that_name_this_machine_are_told_from_others),
      cmocka_unit_test(origins_are_compared_with_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
