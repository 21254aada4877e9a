// SPDX-License-Identifier: Apache-2.0
// What the scan of a connection's bytes takes and what it refuses, whole and byte by byte, and
// where it says that requests begin and end.
#include "frontend/http/transport/request_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define POST         "POST /v2/models/m/infer HTTP/1.1\r\n"
#define CHUNKED      POST "Transfer-Encoding: chunked\r\n\r\n"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct row {
  const char *text;
  size_t size;
  unsigned status; // 0: good
  size_t complete; // requests that came whole
} row;

#define ROW(text, status, complete)                                                                \
  {                                                                                                \
    text, sizeof(text) - 1, status, complete                                                       \
  }

static const row rows[] = {
    ROW("GET / HTTP/1.1\r\n\r\n", 0, 1),
    ROW("GET / HTTP/1.0\r\nHost: x\r\n\r\nGET / HTTP/1.2\r\n\r\n", 0, 2),
    ROW("\r\n\r\nGET  /a?b&c=\xff  HTTP/1.1\r\nA:\r\nB: \t x \t\r\n\r\n", 0, 1),
    ROW(POST "Content-Length: 005\r\n\r\nhello" POST "\r\n", 0, 2),
    ROW(POST "content-length:\t5\r\n\r\nhell", 0, 0),
    ROW(POST "Content-Lengths: x\r\nContent-Lengt: y\r\n\r\n", 0, 1),
    ROW(CHUNKED "5\r\nhello\r\n0\r\n\r\n" CHUNKED "0\r\nContent-Length: x\r\n\r\n", 0, 2),
    ROW(CHUNKED "005;a=\"b\";c\r\nhello\r\n00\r\n\r\n", 0, 1),
    ROW(CHUNKED "ffffffffffffffff\r\nhello", 0, 0),
    // The first line.
    ROW("G\tT / HTTP/1.1\r\n\r\n", 400, 0),
    ROW(" GET / HTTP/1.1\r\n\r\n", 400, 0),
    ROW("\nGET / HTTP/1.1\r\n\r\n", 400, 0),
    ROW("\rGET / HTTP/1.1\r\n\r\n", 400, 0),
    ROW("\x16\x03\x01", 400, 0),
    ROW("GET\r\n\r\n", 400, 0),
    ROW("GET /\r\n\r\n", 400, 0),
    ROW("GET  HTTP/1.1\r\n\r\n", 400, 0),
    ROW("GET /a b HTTP/1.1\r\n\r\n", 400, 0),
    ROW("GET /a\tb HTTP/1.1\r\n\r\n", 400, 0),
    ROW("GET /a\0 HTTP/1.1\r\n\r\n", 400, 0),
    ROW("GET / http/1.1\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.10\r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1 \r\n\r\n", 400, 0),
    ROW("GET / HTTP/1.1\n\n", 400, 0),
    ROW("GET / HTTP/1.1\rX", 400, 0),
    ROW("GET / HTTP/0.9\r\n\r\n", 505, 0),
    ROW("PRI * HTTP/2.0\r\n\r\n", 505, 0),
    // Fields.
    ROW(POST " A: b\r\n\r\n", 400, 0),
    ROW(POST ": b\r\n\r\n", 400, 0),
    ROW(POST "A : b\r\n\r\n", 400, 0),
    ROW(POST "A\r\n\r\n", 400, 0),
    ROW(POST "A: b\r\n c\r\n\r\n", 400, 0),
    ROW(POST "A: b\nC: d\r\n\r\n", 400, 0),
    ROW(POST "A: b\rC: d\r\n\r\n", 400, 0),
    ROW(POST "A: b\0\r\n\r\n", 400, 0),
    ROW(POST "Host: x\0\r\n\r\n", 400, 0),
    ROW(POST "A: b\x7f\r\n\r\n", 400, 0),
    ROW(POST "A\x80: b\r\n\r\n", 400, 0),
    ROW(POST "\n", 400, 0),
    ROW(POST "\rX", 400, 0),
    // Where the body ends.
    ROW(POST "Content-Length: 5\0\r\n\r\nhello", 400, 0),
    ROW(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400, 0),
    ROW(POST "Content-Length: 5, 5\r\n\r\nhello", 400, 0),
    ROW(POST "Content-Length: 5 \r\n\r\nhello", 400, 0),
    ROW(POST "Content-Length:\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: -0\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 9223372036854775808\r\n\r\n", 400, 0),
    ROW(POST "Content-Length: 9223372036854775807\r\n\r\n", 0, 0),
    ROW(POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: chunked\0\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding: chunke\r\n\r\n", 400, 0),
    ROW(POST "Transfer-Encoding:\r\n\r\n", 400, 0),
    // Chunks.
    ROW(CHUNKED "5\nhello\r\n0\r\n\r\n", 400, 0),
    ROW(CHUNKED "5;\nhello\r\n0\r\n\r\n", 400, 0),
    ROW(CHUNKED "5;a\0\r\nhello\r\n0\r\n\r\n", 400, 0),
    ROW(CHUNKED "5\r\nhello\n0\r\n\r\n", 400, 0),
    ROW(CHUNKED "5\r\nhello\n\r0\r\n\r\n", 400, 0),
    ROW(CHUNKED "5\r\nhelloX\r\n0\r\n\r\n", 400, 0),
    ROW(CHUNKED "5\r\nhello\r\n0\n\r\n", 400, 0),
    ROW(CHUNKED "5\r\nhello\r\n0\r\n\n", 400, 0),
    ROW(CHUNKED "5\r\nhello\r\n0\r\n\0\r\n\r\n", 400, 0),
    ROW(CHUNKED "5\r\nhello\r\n0\r\nA : b\r\n\r\n", 400, 0),
    ROW(CHUNKED "\r\n0\r\n\r\n", 400, 0),
    ROW(CHUNKED ";a\r\n0\r\n\r\n", 400, 0),
    ROW(CHUNKED "5 \r\nhello\r\n0\r\n\r\n", 400, 0),
    ROW(CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", 400, 0),
    ROW(CHUNKED "10000000000000000\r\n", 413, 0),
    // Behind a good one.
    ROW("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nA : b\r\n\r\n", 400, 1),
};

static size_t count_complete(request_scan *s)
{
  size_t count = 0;
  while (request_scan_first(s) != NULL && request_scan_first(s)->is_complete) {
    request_scan_drop_first(s);
    count++;
  }
  return count;
}

// In pieces of that size.
static void check(const row *r, size_t piece)
{
  request_scan s;
  char *copy = malloc(r->size);
  memcpy(copy, r->text, r->size);
  request_scan_init(&s, true);
  for (size_t at = 0; at < r->size; at += piece)
    request_scan_read(&s, copy + at, piece < r->size - at ? piece : r->size - at);
  size_t complete = count_complete(&s);
  const scan_fault *fault = request_scan_first_fault(&s);
  unsigned status = fault == NULL ? 0 : fault->status;
  if (complete != r->complete || status != r->status)
    fail_msg("row %zu in pieces of %zu: %zu requests, %u (%s)", (size_t)(r - rows), piece, complete,
             status, fault == NULL ? "" : fault->text);
  request_scan_fini(&s);
  free(copy);
}

static void each_row_is_as_it_says_in_pieces_of_any_size(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++)
    for (size_t piece = 1; piece <= rows[i].size; piece++)
      check(&rows[i], piece);
}

static void read_text(request_scan *s, const char *text)
{
  char *copy = strdup(text);
  request_scan_read(s, copy, strlen(copy));
  free(copy);
}

static void a_fault_waits_for_the_requests_before_it(void **state)
{
  (void)state;
  request_scan s;
  request_scan_init(&s, true);
  read_text(&s, "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nG@T");
  assert_null(request_scan_first_fault(&s));
  request_scan_drop_first(&s);
  assert_null(request_scan_first_fault(&s));
  request_scan_drop_first(&s);
  assert_non_null(request_scan_first_fault(&s));
  assert_false(request_scan_first(&s)->has_head);
  read_text(&s, "GET / HTTP/1.1\r\n\r\n"); // what comes behind it counts for nothing
  assert_false(request_scan_first(&s)->has_head);
  request_scan_fini(&s);
}

static void many_requests_may_wait(void **state)
{
  (void)state;
  request_scan s;
  char text[128];
  request_scan_init(&s, true);
  size_t sent = 0;
  for (size_t taken = 0; taken < 3000; taken++) {
    for (size_t i = 0; i < (taken < 1000 ? 3 : 0); i++) {
      snprintf(text, sizeof(text), POST "Content-Length: %zu\r\n\r\n%.*s", sent % 5,
               (int)(sent % 5), "hello");
      read_text(&s, text);
      sent++;
    }
    assert_true(request_scan_first(&s)->is_complete);
    assert_int_equal(request_scan_first(&s)->content_length, taken % 5);
    assert_int_equal(request_scan_first(&s)->body_bytes, taken % 5);
    request_scan_drop_first(&s);
  }
  assert_null(request_scan_first(&s));
  request_scan_fini(&s);
}

static void a_request_says_how_its_body_ends(void **state)
{
  (void)state;
  request_scan s;
  request_scan_init(&s, true);
  read_text(&s, CHUNKED "5\r\nhello\r\n2\r\nyo");
  assert_true(request_scan_first(&s)->has_head);
  assert_true(request_scan_first(&s)->chunked);
  assert_false(request_scan_first(&s)->is_complete);
  assert_int_equal(request_scan_first(&s)->body_bytes, 7);
  read_text(&s, "\r\n0\r\n\r\n");
  assert_true(request_scan_first(&s)->is_complete);
  request_scan_fini(&s);
}

static void extensions_are_refused_where_libmicrohttpd_misreads_them(void **state)
{
  (void)state;
  request_scan s;
  request_scan_init(&s, false);
  read_text(&s, CHUNKED "5;a\r\nhello\r\n0\r\n\r\n");
  assert_int_equal(request_scan_first_fault(&s)->status, 400);
  request_scan_fini(&s);
}

static void check_joined(const char *text, const char *joined)
{
  for (size_t piece = 1; piece <= strlen(text); piece++) {
    request_scan s;
    char *copy = strdup(text);
    size_t size = strlen(text);
    request_scan_init(&s, true);
    for (size_t at = 0; at < size; at += piece)
      request_scan_read(&s, copy + at, piece < size - at ? piece : size - at);
    assert_string_equal(copy, joined);
    request_scan_fini(&s);
    free(copy);
  }
}

static void a_query_is_one_argument_and_nothing_else_is_changed(void **state)
{
  (void)state;
  check_joined("GET /a&b?c&d&&e HTTP/1.1\r\nA: b&c\r\n\r\nGET /a&b HTTP/1.1\r\n\r\n",
               "GET /a&b?c;d;;e HTTP/1.1\r\nA: b&c\r\n\r\nGET /a&b HTTP/1.1\r\n\r\n");
  check_joined(CHUNKED "5\r\n?a&b&\r\n0\r\n\r\n", CHUNKED "5\r\n?a&b&\r\n0\r\n\r\n");
  check_joined("G@T /?a&b", "G@T /?a;b"); // whatever that is
}

static void a_long_line_is_refused_before_it_ends(void **state)
{
  (void)state;
  for (int place = 0; place < 3; place++) {
    request_scan s;
    request_scan_init(&s, true);
    char line[SCAN_MAX_TARGET_BYTES + 1];
    memset(line, 'a', sizeof(line));
    read_text(&s, place == 0 ? "" : place == 1 ? "GET " : "GET ?");
    request_scan_read(&s, line, SCAN_MAX_TARGET_BYTES - 1);
    assert_null(request_scan_first_fault(&s));
    request_scan_read(&s, line, 2);
    assert_int_equal(request_scan_first_fault(&s)->status, 414);
    request_scan_fini(&s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_row_is_as_it_says_in_pieces_of_any_size),
      cmocka_unit_test(a_fault_waits_for_the_requests_before_it),
      cmocka_unit_test(many_requests_may_wait),
      cmocka_unit_test(a_request_says_how_its_body_ends),
      cmocka_unit_test(extensions_are_refused_where_libmicrohttpd_misreads_them),
      cmocka_unit_test(a_query_is_one_argument_and_nothing_else_is_changed),
      cmocka_unit_test(a_long_line_is_refused_before_it_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
