// SPDX-License-Identifier: Apache-2.0
// A path, then header fields, one a line: what a client can say before anything is decided. Both
// are read a second time here, in the plainest way.
#include "frontend/common/net/peer.h"
#include "frontend/http/service/routes.h"
#include "frontend/http/transport/headers.h"
#include "fuzz.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

// ---- the path ----

static slice take_segment(slice *rest)
{
  fuzz_input left = {(const uint8_t *)rest->data, rest->size};
  const slice segment = fuzz_take_until(&left, '/');
  *rest = (slice){(const char *)left.data, left.size};
  return segment;
}

static size_t count_slashes(slice text)
{
  size_t count = 0;
  for (size_t i = 0; i < text.size; i++)
    count += text.data[i] == '/';
  return count;
}

static bool is_decimal(slice text)
{
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] < '0' || text.data[i] > '9')
      return false;
  return true;
}

// Written apart from the rule's own code: digits, or a letter or '_' and then those, '-' and '.'.
static bool is_version(slice text)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  if (is_decimal(text))
    return true;
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    bool first = c != '\0' && strchr(letters, c) != NULL;
    if (!first && (i == 0 || c == '\0' || strchr("0123456789-.", c) == NULL))
      return false;
  }
  return true;
}

static bool path_matches(const char *pattern_text, slice path)
{
  slice pattern = slice_of(pattern_text);
  if (count_slashes(pattern) != count_slashes(path))
    return false;
  while (pattern.size > 0) {
    const slice expected = take_segment(&pattern), segment = take_segment(&path);
    if (expected.size == 0 || expected.data[0] != '{') {
      if (!slice_equal(expected, segment))
        return false;
    } else if (segment.size == 0 ||
               (slice_equal_text(expected, "{version}") && !is_version(segment))) {
      return false;
    }
  }
  return path.size == 0;
}

// The methods of the first pattern that matches.
static unsigned methods_of(slice path)
{
  const size_t count = http_routes.count;
  const route *rows = http_routes.rows;
  const char *pattern = NULL;
  unsigned methods = 0;
  for (size_t i = 0; i < count; i++) {
    if (pattern == NULL && path_matches(rows[i].path, path))
      pattern = rows[i].path;
    if (pattern != NULL && strcmp(pattern, rows[i].path) == 0)
      methods |= rows[i].methods;
  }
  return methods;
}

static void check_decoding(slice from)
{
  char *decoded = malloc(from.size + 1), *expected = malloc(from.size + 1);
  CHECK(decoded != NULL && expected != NULL);
  bool valid = true;
  size_t size = 0;
  for (size_t i = 0; valid && i < from.size; i++) {
    char c = from.data[i];
    if (c == '%') {
      char digits[3] = {0};
      char *end;
      memcpy(digits, from.data + i + 1, from.size - i - 1 < 2 ? from.size - i - 1 : 2);
      c = (char)strtol(digits, &end, 16);
      valid = end == digits + 2 && digits[0] != '+' && digits[0] != '-' && digits[0] != ' ' &&
              digits[1] != 'x' && digits[1] != 'X' && (unsigned char)c >= 0x20 && c != 0x7f &&
              c != '/' && strspn(digits, "0123456789abcdefABCDEF") == 2;
      i += 2;
    }
    expected[size++] = c;
  }
  CHECK(route_decode(from, decoded) == valid);
  CHECK(!valid || (memcmp(decoded, expected, size) == 0 && decoded[size] == '\0'));
  free(expected);
  free(decoded);
}

static void check_path(slice path)
{
  const unsigned methods = methods_of(path);
  for (unsigned method = 0; method <= METHOD_POST; method++) {
    const route_match found = route_find(&http_routes, method, path);
    CHECK((found.route != NULL) == ((methods & method) != 0));
    CHECK(found.route != NULL || found.methods == methods);
    CHECK(found.route == NULL || path_matches(found.route->path, path));
    for (size_t i = 0; found.methods != 0 && i < PARAMETER_COUNT; i++)
      if (found.parameters[i].size > 0)
        check_decoding(found.parameters[i]);
  }
}

// ---- header fields ----

static slice trimmed(slice text)
{
  while (text.size > 0 && strchr(" \t", text.data[0]) != NULL && text.data[0] != '\0')
    text = (slice){text.data + 1, text.size - 1};
  while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
    text.size--;
  return text;
}

static bool is_named(slice name, const char *expected)
{
  return name.size == strlen(expected) && strncasecmp(name.data, expected, name.size) == 0;
}

static void check_number(slice text)
{
  const header_number number = headers_number(text);
  char *copy = fuzz_copy(text, 0);
  const size_t sign = copy[0] == '-';
  const size_t digits = strspn(copy + sign, "0123456789");
  if (digits == 0 || sign + digits != text.size) {
    CHECK(number.state == NUMBER_MALFORMED);
  } else {
    errno = 0;
    const long long value = strtoll(copy, NULL, 10);
    CHECK(number.state == (errno == ERANGE ? NUMBER_OUT_OF_RANGE : NUMBER_VALID));
    CHECK(number.state != NUMBER_VALID || number.value == value);
  }
  free(copy);
}

static content_coding coding_named(slice name)
{
  static const struct {
    const char *name;
    content_coding coding;
  } codings[] = {{"gzip", CODING_GZIP}, {"deflate", CODING_DEFLATE}, {"identity", CODING_IDENTITY}};
  for (size_t i = 0; i < 3; i++)
    if (name.size == strlen(codings[i].name) &&
        strncasecmp(name.data, codings[i].name, name.size) == 0)
      return codings[i].coding;
  return CODING_UNKNOWN;
}

// Without weights the first coding that the server speaks is the best; with them it is one of those
// that are named.
static void check_accepted(slice value)
{
  const content_coding accepted = headers_accepted_coding(value);
  fuzz_input rest = {(const uint8_t *)value.data, value.size};
  content_coding first = CODING_UNKNOWN;
  bool named = false, weighted = memchr(value.data, ';', value.size) != NULL;
  while (rest.size > 0) {
    slice element = fuzz_take_until(&rest, ',');
    fuzz_input parameters = {(const uint8_t *)element.data, element.size};
    const content_coding coding = coding_named(trimmed(fuzz_take_until(&parameters, ';')));
    if (first == CODING_UNKNOWN)
      first = coding;
    named |= coding == accepted;
  }
  CHECK(named || accepted == CODING_IDENTITY);
  CHECK(weighted || accepted == (first == CODING_UNKNOWN ? CODING_IDENTITY : first));
}

// ---- where a request comes from ----

// "localhost" or a loopback address, behind which the last ':' may be that of a port.
static bool is_ours(char *text)
{
  struct in_addr v4;
  struct in6_addr v6;
  char *colon = strrchr(text, ':');
  size_t length = strlen(text);
  if (colon != NULL && (colon == text || text[length - 1] != ']')) {
    size_t digits = strspn(colon + 1, "0123456789");
    if (digits == 0 || digits > 5 || colon[1 + digits] != '\0' || atol(colon + 1) > 65535)
      return false;
    *colon = '\0';
    length = strlen(text);
  }
  if (strcasecmp(text, "localhost") == 0)
    return true;
  if (text[0] != '[' || text[length - 1] != ']')
    return inet_pton(AF_INET, text, &v4) == 1 && strncmp(text, "127.", 4) == 0;
  text[length - 1] = '\0';
  if (inet_pton(AF_INET6, text + 1, &v6) != 1)
    return false;
  static const uint8_t one[16] = {[15] = 1}, mapped[13] = {[10] = 255, [11] = 255, [12] = 127};
  return memcmp(&v6, one, 16) == 0 || memcmp(&v6, mapped, 13) == 0;
}

static void check_host(slice text)
{
  char *copy = fuzz_copy(text, 0);
  bool has_zero = text.size > 0 && memchr(text.data, '\0', text.size) != NULL;
  CHECK(peer_names_this_machine(text) == (!has_zero && is_ours(copy)));
  free(copy);
}

// Case, '_' and gRPC's "-bin" hide no field of a proxy.
static void check_proxy_field(slice name)
{
  char *other = fuzz_copy(name, 4);
  bool is_proxy = peer_is_proxy_field(name);
  for (size_t i = 0; i < name.size; i++)
    other[i] = (char)(other[i] == '-'   ? '_'
                      : other[i] == '_' ? '-'
                                        : toupper((unsigned char)other[i]));
  bool is_binary = name.size > 4 && (memcmp(other + name.size - 4, "_BIN", 4) == 0 ||
                                     memcmp(other + name.size - 4, "-BIN", 4) == 0);
  CHECK(is_binary || peer_is_proxy_field((slice){other, name.size}) == is_proxy);
  memcpy(other + name.size, "-bin", 4);
  CHECK(is_binary || !is_proxy || peer_is_proxy_field((slice){other, name.size + 4}));
  CHECK(!is_named(name, "Via") || is_proxy);
  CHECK(name.size < 11 || strncasecmp(name.data, "X-Forwarded", 11) != 0 || is_proxy);
  CHECK(!is_named(name, "Host") || !is_proxy);
  free(other);
}

// ---- framing ----

// What the fields of a request say of its framing.
typedef struct framing {
  size_t count, inference_lengths, hosts;
  bool chunked;
} framing;

static void note_field(framing *f, slice name)
{
  f->count++;
  f->inference_lengths += is_named(name, "Inference-Header-Content-Length");
  f->hosts += is_named(name, "Host");
  f->chunked = f->chunked || is_named(name, "Transfer-Encoding");
}

static void check_framing(const framing *f, const request_headers *headers)
{
  CHECK(headers->count == f->count);
  CHECK(headers->chunked == f->chunked);
  CHECK((headers->fault == NULL) == (f->inference_lengths <= 1 && f->hosts <= 1));
}

static void check_fields(fuzz_input *lines)
{
  request_headers headers = {0};
  framing seen = {0};
  while (lines->size > 0) {
    const slice line = fuzz_take_until(lines, '\n');
    fuzz_input rest = {(const uint8_t *)line.data, line.size};
    const slice name = fuzz_take_until(&rest, ':');
    const slice value = {(const char *)rest.data, rest.size};
    headers_add(&headers, name, value);
    note_field(&seen, name);
    check_host(trimmed(value));
    check_proxy_field(name);
    check_number(trimmed(value));
    if (value.size > 0)
      check_accepted(value);
  }
  check_framing(&seen, &headers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *copy = fuzz_copy((slice){(const char *)data, size}, 0);
  fuzz_input input = {(const uint8_t *)copy, size};
  const slice path = fuzz_take_until(&input, '\n');
  check_path(path);
  check_fields(&input);
  free(copy);
  return 0;
}
