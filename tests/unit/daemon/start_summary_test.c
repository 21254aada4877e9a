// SPDX-License-Identifier: Apache-2.0
// The last line of the start.
#include "daemon/start_summary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char first[] = "a", second[] = "nowhere";
static char *names[2] = {first, second};
static const string_list nothing = {0};
static const string_list wanted = {.items = names, .count = 2};

static start_summary summary(void)
{
  return (start_summary){
      .wanted = &nothing, .http = "0.0.0.0:8000", .metrics = "0.0.0.0:8002", .seconds = 1.234};
}

static void assert_line(const start_summary *s, const char *index, bool well, const char *expected)
{
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  assert_int_equal(start_summary_print(s, index, strlen(index), &out), well);
  buffer_append_char(&out, '\0');
  assert_string_equal(out.data, expected);
}

#define ENDS ": HTTP at 0.0.0.0:8000, gRPC off, metrics at 0.0.0.0:8002"

static void ready_models_are_counted_not_their_versions(void **state)
{
  (void)state;
  start_summary s = summary();
  assert_line(&s, "[]", true, "Serving no models after 1.23 s" ENDS);
  assert_line(&s, "[{\"name\":\"a\",\"version\":\"1\",\"state\":\"READY\"}]", true,
              "Serving 1 model after 1.23 s" ENDS);
  assert_line(
      &s,
      "[{\"name\":\"a\",\"version\":\"1\",\"state\":\"READY\"},"
      "{\"name\":\"a\",\"version\":\"2\",\"state\":\"READY\"},"
      "{\"name\":\"b\",\"version\":\"1\",\"state\":\"READY\"},"
      "{\"name\":\"c\"},"
      "{\"name\":\"d\",\"version\":\"1\",\"state\":\"UNAVAILABLE\",\"reason\":\"unloaded\"}]",
      true, "Serving 2 models after 1.23 s" ENDS);
}

static void models_that_failed_are_named(void **state)
{
  (void)state;
  start_summary s = summary();
  const char *index =
      "[{\"name\":\"a\",\"version\":\"1\",\"state\":\"READY\"},"
      "{\"name\":\"a\",\"version\":\"2\",\"state\":\"UNAVAILABLE\",\"reason\":\"x\"},"
      "{\"name\":\"b\",\"state\":\"UNAVAILABLE\",\"reason\":\"y\"}]";
  assert_line(&s, index, false, "Serving 1 of 2 models after 1.23 s (failed: a version 2, b)" ENDS);
  s.wanted = &wanted;
  assert_line(&s, index, false,
              "Serving 1 of 3 models after 1.23 s (failed: a version 2, b, nowhere)" ENDS);
  s.gives_up = true;
  assert_line(&s, index, false,
              "Giving up with 1 of 3 models after 1.23 s (failed: a version 2, b, nowhere); "
              "--exit-on-error=false serves the others");
}

static void only_some_of_many_are_named_and_long_names_are_cut(void **state)
{
  (void)state;
  AUTO_BUFFER buffer index = BUFFER_EMPTY;
  for (int i = 0; i < 1000; i++)
    buffer_append_format(&index,
                         "%c{\"name\":\"m%d%0300d\",\"state\":\"UNAVAILABLE\",\"reason\":\"\"}",
                         i == 0 ? '[' : ',', i, 0);
  buffer_append_text(&index, "]");
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  start_summary s = summary();
  assert_false(start_summary_print(&s, index.data, index.size, &out));
  buffer_append_char(&out, '\0');
  assert_true(out.size < 1000);
  assert_non_null(strstr(out.data, "Serving 0 of 1000 models after"));
  assert_non_null(strstr(out.data, " and 995 more): HTTP"));
  static char umlauts[204] = "x"; // the hundredth byte is the first half of one
  for (int i = 0; i < 101; i++)
    strcat(umlauts, "ü");
  char *long_names[1] = {umlauts};
  const string_list one = {.items = long_names, .count = 1};
  AUTO_BUFFER buffer cut = BUFFER_EMPTY;
  s.wanted = &one;
  assert_false(start_summary_print(&s, "[]", 2, &cut));
  buffer_append_char(&cut, '\0');
  assert_non_null(strstr(cut.data, "üü…): HTTP"));
  assert_null(strstr(cut.data, "\xc3\xe2"));
}

static void ports_that_are_off_and_those_with_tls_are_told(void **state)
{
  (void)state;
  start_summary s = summary();
  s.http = "unix:/run/nereid";
  s.grpc = "[::]:8001";
  s.metrics = NULL;
  s.http_tls = s.grpc_tls = true;
  assert_line(&s, "[]", true,
              "Serving no models after 1.23 s: HTTP at unix:/run/nereid with TLS, gRPC at "
              "[::]:8001 with TLS, metrics off");
}

static void what_is_no_index_counts_as_none(void **state)
{
  (void)state;
  start_summary s = summary();
  assert_line(&s, "", true, "Serving no models after 1.23 s" ENDS);
  assert_line(&s, "[1,{},{\"name\":7}]", true, "Serving no models after 1.23 s" ENDS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ready_models_are_counted_not_their_versions),
      cmocka_unit_test(models_that_failed_are_named),
      cmocka_unit_test(only_some_of_many_are_named_and_long_names_are_cut),
      cmocka_unit_test(ports_that_are_off_and_those_with_tls_are_told),
      cmocka_unit_test(what_is_no_index_counts_as_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
