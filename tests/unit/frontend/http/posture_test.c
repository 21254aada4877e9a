// SPDX-License-Identifier: Apache-2.0
// Who may do what: the route table against the checked-in page of what each route answers
// (tests/e2e/security/posture.txt, walked by tests/e2e/security/test_posture.py), and who counts as
// local.
#include "frontend/common/net/peer.h"
#include "frontend/common/policy/access_policy.h"
#include "frontend/http/exchange/access.h"
#include "frontend/http/service/routes.h"

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
  const size_t count = http_routes.count;
  const route *rows = http_routes.rows;
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
  static const char *const ours[] = {
      "localhost",      "localhost:8000", "LocalHost:1",          "LOCALHOST",
      "127.0.0.1",      "127.1.2.3:80",   "127.0.0.1:0",          "127.0.0.1:65535",
      "[::1]",          "[::1]:8000",     "[0:0:0:0:0:0:0:1]:80", "[::ffff:127.0.0.1]:1",
      "[::FFFF:7f00:1]"};
  static const char *const others[] = {
      "", ":8000", "example.com", "localhost.example.com", "localhost.evil", "localhost.",
      "localhost.:80", ".localhost", "x.localhost", "localhost6", "ip6-localhost", "localhos",
      "127.0.0.1.example.com", "127.0.0.1x", "127.0.0.1.", "0.0.0.0", "10.0.0.1:8000", "128.0.0.1",
      // what stands behind the port, or before the host
      "localhost:80@evil", "localhost:@evil", "localhost@evil", "evil@localhost",
      "user:password@localhost:80", "127.0.0.1:80@evil.example", "localhost:80:90",
      "localhost:", "localhost:x", "localhost:-1", "localhost:+1", "localhost: 80",
      "localhost:65536", "localhost:00000080", "localhost:80 ", " localhost", "localhost evil",
      "localhost,evil", "localhost, localhost", "localhost/", "localhost/evil", "localhost#evil",
      "localhost?evil", "localhost\\evil", "localhost%00.evil", "local%68ost", "http://localhost",
      "//localhost",
      // brackets are for IPv6, and for nothing else
      "[::2]", "[::]", "[::1", "::1", "::1:80", "[::1]evil", "[::1].evil",
      "[::1]:", "[::1]:80@evil", "[::1]@evil", "[::1]]", "[[::1]]", "[]", "[", "[localhost]",
      "[127.0.0.1]", "[::1%25lo]", "[::1%lo]", "[::127.0.0.1]", "[::ffff:10.0.0.1]",
      "[64:ff9b::127.0.0.1]",
      // what only some resolvers take for 127.0.0.1
      "0x7f.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.1", "127.0.0.01",
      "127.000.000.001", "127.1", "127.0.1", "127", "0", "\xef\xbc\x91\x32\x37.0.0.1",
      "localhos\xc5\xa3", "a-host-name-that-is-longer-than-any-address-can-be-written"};
  for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
    if (!peer_names_this_machine(slice_of(ours[i])))
      fail_msg("'%s' was taken for another machine", ours[i]);
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
    if (peer_names_this_machine(slice_of(others[i])))
      fail_msg("'%s' was taken for this machine", others[i]);
  assert_false(peer_names_this_machine((slice){"localhost\0", 10}));
  assert_false(peer_names_this_machine((slice){"127.0.0.1\0.evil", 15}));
  assert_false(peer_names_this_machine((slice){NULL, 0}));
}

static void fields_of_proxies_are_told_from_those_of_clients(void **state)
{
  (void)state;
  static const char *const theirs[] = {"Via",
                                       "via",
                                       "VIA",
                                       "Forwarded",
                                       "forwarded-for",
                                       "X-Forwarded-For",
                                       "x-forwarded-for",
                                       "X-FORWARDED-PROTO",
                                       "X-Forwarded-Host",
                                       "X-Forwarded",
                                       "X_Forwarded_For",
                                       "X-Real-IP",
                                       "x_real_ip",
                                       "CF-Connecting-IP",
                                       "cf-ray",
                                       "CF-Visitor",
                                       "CDN-Loop",
                                       "True-Client-IP",
                                       "X-Original-URL",
                                       "X-Original-Forwarded-For",
                                       "X-Original-Host",
                                       "X-Client-IP",
                                       "X-Cluster-Client-IP",
                                       "Fastly-Client-IP",
                                       "Fly-Client-IP",
                                       "X-Envoy-External-Address",
                                       "Proxy-Connection",
                                       "x-forwarded-for-bin",
                                       "via-bin",
                                       "forwarded-BIN",
                                       "x-real-ip-bin",
                                       "grpcgateway-user-agent"};
  static const char *const clients[] = {"",
                                        "-bin",
                                        "Host",
                                        "User-Agent",
                                        "Accept",
                                        "Content-Type",
                                        "Content-Length",
                                        "Authorization",
                                        "vi",
                                        "viaduct",
                                        "x-via",
                                        "forward",
                                        "x-real",
                                        "x-real-ip2",
                                        "cf",
                                        "cfg",
                                        "x-request-id",
                                        "traceparent",
                                        "x-origin",
                                        "Origin",
                                        "triton-grpc-protocol-via",
                                        "Inference-Header-Content-Length",
                                        "grpc-timeout",
                                        "x-forward"};
  for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++)
    if (!peer_is_proxy_field(slice_of(theirs[i])))
      fail_msg("'%s' was taken for a client's own", theirs[i]);
  for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++)
    if (peer_is_proxy_field(slice_of(clients[i])))
      fail_msg("'%s' was taken for a proxy's", clients[i]);
}

static char key_header[] = "key", key_value[] = "secret";
static const restriction key = {.header = key_header, .value = key_value};

static void under_secure_only_keys_and_the_admin_address_open_admin_categories(void **state)
{
  (void)state;
  access_policy open = {0}, secure = {.secure = true}, admin = {.is_admin = true};
  access_policy keyed = {.secure = true, .allow_model_upload = true};
  keyed.restricted.of[CATEGORY_TRACE] = key;
  for (route_category category = 0; category < CATEGORY_COUNT; category++) {
    assert_false(access_policy_is_closed(&open, category));
    assert_false(access_policy_is_closed(&admin, category));
    assert_int_equal(access_policy_is_closed(&secure, category), route_category_is_admin(category));
    assert_int_equal(access_policy_is_closed(&keyed, category),
                     route_category_is_admin(category) && category != CATEGORY_TRACE);
  }
}

static void code_comes_with_a_key_over_the_admin_address_or_where_it_is_allowed(void **state)
{
  (void)state;
  assert_false(access_policy_takes_code(&(access_policy){0}));
  assert_false(access_policy_takes_code(&(access_policy){.secure = true}));
  assert_true(access_policy_takes_code(&(access_policy){.is_admin = true}));
  assert_true(access_policy_takes_code(&(access_policy){.allow_model_upload = true}));
  access_policy keyed = {0};
  keyed.restricted.of[CATEGORY_TRACE] = key; // of another category
  assert_false(access_policy_takes_code(&keyed));
  keyed.restricted.of[CATEGORY_MODEL_REPOSITORY] = key;
  assert_true(access_policy_takes_code(&keyed));
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
  assert_false(access_is_same_site(SLICE("http://"), (slice){NULL, 0}));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_route_stands_on_the_page_and_no_other),
      cmocka_unit_test(loopback_addresses_are_told_from_others),
      cmocka_unit_test(hosts_that_name_this_machine_are_told_from_others),
      cmocka_unit_test(fields_of_proxies_are_told_from_those_of_clients),
      cmocka_unit_test(under_secure_only_keys_and_the_admin_address_open_admin_categories),
      cmocka_unit_test(code_comes_with_a_key_over_the_admin_address_or_where_it_is_allowed),
      cmocka_unit_test(origins_are_compared_with_the_host),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
