// SPDX-License-Identifier: Apache-2.0
// A state machine over the bytes of requests (RFC 9112). Each state's function takes the bytes that
// belong to it and chooses the next state.
#include "frontend/http/transport/request_scan.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONTENT_LENGTH    "content-length"
#define TRANSFER_ENCODING "transfer-encoding"
#define CHUNKED           "chunked"
#define VERSION           "HTTP/#.#\r" // '#': a digit
#define VERSION_MAJOR     5            // index of the major version

static const scan_fault line_fault = {
    400,
    "the request is malformed: expected a first line 'METHOD URL HTTP/1.1' that ends with CRLF"};
static const scan_fault long_fault = {414, "the request's URL has more than 8192 bytes"};
static const scan_fault target_fault = {400, "the request's URL has a byte that must be encoded"};
static const scan_fault version_fault = {505, "expected a request of HTTP/1.0 or HTTP/1.1"};
static const scan_fault field_fault = {
    400, "a header field is malformed: expected 'name: value' on a line of its own"};
static const scan_fault trailer_fault = {
    400, "a field behind the request's body is malformed: expected 'name: value' on a line of its "
         "own"};
static const scan_fault length_fault = {400, "the request's Content-Length is no length"};
static const scan_fault lengths_fault = {400, "the request has more than one Content-Length"};
static const scan_fault coding_fault = {
    400, "the only Transfer-Encoding that the server takes is 'chunked', once"};
static const scan_fault both_fault = {400,
                                      "the request has both Transfer-Encoding and Content-Length"};
static const scan_fault chunk_fault = {
    400, "a chunk of the request's body is malformed: expected its size in hexadecimal digits, "
         "CRLF, its bytes, CRLF"};
static const scan_fault chunk_size_fault = {
    413, "a chunk of the request's body is longer than fits in 64 bits"};
static const scan_fault extension_fault = {
    400, "a chunk of the request's body has an extension, which this server's libmicrohttpd cannot "
         "read"};
static const scan_fault memory_fault = {503, "out of memory"};

// --- Characters

#define TOKEN  1 // in a method or name (RFC 9110, 5.6.2)
#define TARGET 2 // in a URL, as far as it matters here
#define VALUE  4 // in a field's value or a chunk's extension

#define ANY     (TARGET | VALUE)
#define LETTER  (TOKEN | TARGET | VALUE)
#define ROW(a)  [a] = LETTER
#define ROWS(a) ROW(a), ROW(a + 1), ROW(a + 2), ROW(a + 3), ROW(a + 4)

static const unsigned char classes[256] = {
    ['\t'] = VALUE, [' '] = VALUE, ['"'] = ANY, ['('] = ANY, [')'] = ANY,
    [','] = ANY,    ['/'] = ANY,   [':'] = ANY, [';'] = ANY, ['<'] = ANY,
    ['='] = ANY,    ['>'] = ANY,   ['?'] = ANY, ['@'] = ANY, ['['] = ANY,
    ['\\'] = ANY,   [']'] = ANY,   ['{'] = ANY, ['}'] = ANY, ROW('!'),
    ROWS('#'),      ROW('*'),      ROW('+'),    ROW('-'),    ROW('.'),
    ROWS('0'),      ROWS('5'),     ROWS('A'),   ROWS('F'),   ROWS('K'),
    ROWS('P'),      ROWS('U'),     ROW('Z'),    ROW('^'),
    ROWS('_'), // to c
    ROWS('d'),      ROWS('i'),     ROWS('n'),   ROWS('s'),   ROW('x'),
    ROW('y'),       ROW('z'),      ROW('|'),    ROW('~'),    [0x80 ... 0xff] = ANY,
};

// How many leading bytes are of the class.
static inline size_t run_of(unsigned class, const char *data, size_t size)
{
  size_t i = 0;
  while (i < size && (classes[(unsigned char)data[i]] & class) != 0)
    i++;
  return i;
}

static int hex_digit(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// --- Requests

static scanned_request *last_request(request_scan *s)
{
  return &s->requests[s->first + s->waiting - 1];
}

static bool make_room(request_scan *s)
{
  if (s->first + s->waiting < s->room)
    return true;
  if (s->first > 0) {
    memmove(s->requests, s->requests + s->first, s->waiting * sizeof(*s->requests));
    s->first = 0;
    return true;
  }
  bool is_inline = s->requests == s->inline_requests;
  scanned_request *grown =
      reallocarray(is_inline ? NULL : s->requests, s->room, 2 * sizeof(*s->requests));
  if (grown == NULL)
    return false;
  if (is_inline)
    memcpy(grown, s->inline_requests, sizeof(s->inline_requests));
  s->requests = grown;
  s->room *= 2;
  return true;
}

// The first byte of a request came.
static bool begin_request(request_scan *s)
{
  s->lost = !make_room(s);
  if (s->lost) {
    s->fault = &memory_fault;
    return false;
  }
  s->waiting++;
  *last_request(s) = (scanned_request){0};
  s->has_length = false;
  s->in_trailer = false;
  return true;
}

static void expect(request_scan *s, scan_state next)
{
  s->state = next;
  s->count = 0;
}

static void end_request(request_scan *s)
{
  last_request(s)->is_complete = true;
  expect(s, SCAN_START);
}

// Takes no byte: the request has a fault.
static size_t fail(request_scan *s, const scan_fault *fault)
{
  s->fault = fault;
  return 0;
}

// Takes a byte that must be `c`.
static size_t take_byte(request_scan *s, const char *data, char c, scan_state next,
                        const scan_fault *otherwise)
{
  if (*data != c)
    return fail(s, otherwise);
  expect(s, next);
  return 1;
}

// --- The first line

static size_t read_start(request_scan *s, char *data, size_t size)
{
  (void)size;
  if (*data == '\r') {
    s->state = SCAN_START_LF;
    return 1;
  }
  if (begin_request(s))
    expect(s, SCAN_METHOD);
  return 0;
}

static size_t read_start_lf(request_scan *s, char *data, size_t size)
{
  (void)size;
  if (*data != '\n' && !begin_request(s))
    return 0;
  return take_byte(s, data, '\n', SCAN_START, &line_fault);
}

static size_t read_method(request_scan *s, char *data, size_t size)
{
  size_t taken = run_of(TOKEN, data, size);
  s->count += taken;
  if (s->count > SCAN_MAX_TARGET_BYTES)
    return fail(s, &long_fault);
  if (taken == size)
    return taken;
  if (s->count == 0 || data[taken] != ' ')
    return fail(s, &line_fault);
  expect(s, SCAN_BEFORE_TARGET);
  return taken + 1;
}

// Takes blanks, one or more.
static size_t read_blanks(request_scan *s, const char *data, size_t size, scan_state next)
{
  size_t taken = 0;
  while (taken < size && data[taken] == ' ')
    taken++;
  if (taken < size)
    expect(s, next);
  return taken;
}

static size_t read_before_target(request_scan *s, char *data, size_t size)
{
  return read_blanks(s, data, size, SCAN_TARGET);
}

// Ends a URL after `taken` bytes, unless the rest of it has not come.
static size_t end_target(request_scan *s, const char *data, size_t size, size_t taken)
{
  s->count += taken;
  if (s->count > SCAN_MAX_TARGET_BYTES)
    return fail(s, &long_fault);
  if (taken == size)
    return taken;
  char next = data[taken];
  if (next == '\r' || next == '\n' || s->count == 0)
    return fail(s, &line_fault);
  if (next != ' ')
    return fail(s, &target_fault);
  expect(s, SCAN_BEFORE_VERSION);
  return taken + 1;
}

static size_t read_target(request_scan *s, char *data, size_t size)
{
  size_t taken = run_of(TARGET, data, size);
  const char *query = memchr(data, '?', taken);
  if (query == NULL)
    return end_target(s, data, size, taken);
  taken = (size_t)(query - data);
  s->count += taken;
  s->state = SCAN_QUERY;
  return taken;
}

static void join_arguments(char *data, size_t size)
{
  for (char *at = data; (at = memchr(at, '&', size - (size_t)(at - data))) != NULL;)
    *at = ';';
}

static size_t read_query(request_scan *s, char *data, size_t size)
{
  size_t taken = run_of(TARGET, data, size);
  join_arguments(data, taken);
  return end_target(s, data, size, taken);
}

static size_t read_before_version(request_scan *s, char *data, size_t size)
{
  return read_blanks(s, data, size, SCAN_VERSION);
}

static size_t read_version(request_scan *s, char *data, size_t size)
{
  (void)size;
  char expected = VERSION[s->count];
  bool is_digit = *data >= '0' && *data <= '9';
  if (expected == '#' ? !is_digit : *data != expected)
    return fail(s, &line_fault);
  if (s->count == VERSION_MAJOR)
    s->left = (uint64_t)(*data - '0');
  if (++s->count < sizeof(VERSION) - 1)
    return 1;
  if (s->left != 1)
    return fail(s, &version_fault);
  expect(s, SCAN_LINE_LF);
  return 1;
}

static size_t read_line_lf(request_scan *s, char *data, size_t size)
{
  (void)size;
  return take_byte(s, data, '\n', SCAN_FIELD, &line_fault);
}

// --- Fields

static const scan_fault *fault_of_field(const request_scan *s)
{
  return s->in_trailer ? &trailer_fault : &field_fault;
}

static size_t read_field(request_scan *s, char *data, size_t size)
{
  (void)size;
  bool is_end = *data == '\r';
  expect(s, is_end ? SCAN_FIELDS_LF : SCAN_NAME);
  return is_end ? 1 : 0;
}

static bool is_name(const request_scan *s, const char *name)
{
  size_t size = strlen(name);
  return s->count == size && strncasecmp(s->name, name, size) == 0;
}

// The name's colon came.
static void begin_value(request_scan *s)
{
  s->value = SCAN_ANY_VALUE;
  if (!s->in_trailer && is_name(s, CONTENT_LENGTH))
    s->value = SCAN_LENGTH_VALUE;
  else if (!s->in_trailer && is_name(s, TRANSFER_ENCODING))
    s->value = SCAN_CODING_VALUE;
  s->malformed = s->has_digits = false;
  s->left = 0;
  expect(s, SCAN_VALUE);
}

static size_t read_name(request_scan *s, char *data, size_t size)
{
  size_t taken = run_of(TOKEN, data, size);
  if (s->count < sizeof(s->name)) {
    size_t room = sizeof(s->name) - s->count;
    memcpy(s->name + s->count, data, taken < room ? taken : room);
  }
  s->count += taken;
  if (taken == size)
    return taken;
  if (s->count == 0 || data[taken] != ':')
    return fail(s, fault_of_field(s));
  begin_value(s);
  return taken + 1;
}

static void read_digits(request_scan *s, const char *data, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    bool is_blank = data[i] == ' ' || data[i] == '\t';
    if (is_blank && !s->has_digits)
      continue;
    unsigned digit = (unsigned char)data[i] - '0';
    s->has_digits = true;
    if (digit > 9 || s->left > ((uint64_t)INT64_MAX - digit) / 10)
      s->malformed = true;
    else
      s->left = s->left * 10 + digit;
  }
}

static void read_coding(request_scan *s, const char *data, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    if (s->count == 0 && (data[i] == ' ' || data[i] == '\t'))
      continue;
    s->malformed = s->malformed || s->count >= strlen(CHUNKED) ||
                   strncasecmp(&CHUNKED[s->count], data + i, 1) != 0;
    s->count++;
  }
}

// Checks the complete value. NULL: it is valid.
static const scan_fault *end_value(request_scan *s)
{
  scanned_request *request = last_request(s);
  if (s->value == SCAN_CODING_VALUE) {
    bool taken = !s->malformed && !request->chunked && s->count == strlen(CHUNKED);
    request->chunked = true;
    return taken ? NULL : &coding_fault;
  }
  if (s->value == SCAN_ANY_VALUE)
    return NULL;
  if (s->has_length)
    return &lengths_fault;
  s->has_length = true;
  request->content_length = s->left;
  return s->malformed || !s->has_digits ? &length_fault : NULL;
}

static size_t read_value(request_scan *s, char *data, size_t size)
{
  size_t taken = run_of(VALUE, data, size);
  if (s->value == SCAN_LENGTH_VALUE)
    read_digits(s, data, taken);
  else if (s->value == SCAN_CODING_VALUE)
    read_coding(s, data, taken);
  if (taken == size)
    return taken;
  if (data[taken] != '\r')
    return fail(s, fault_of_field(s));
  s->fault = end_value(s);
  expect(s, SCAN_VALUE_LF);
  return taken + 1;
}

static size_t read_value_lf(request_scan *s, char *data, size_t size)
{
  (void)size;
  return take_byte(s, data, '\n', SCAN_FIELD, fault_of_field(s));
}

static size_t read_fields_lf(request_scan *s, char *data, size_t size)
{
  (void)size;
  scanned_request *request = last_request(s);
  if (take_byte(s, data, '\n', SCAN_START, fault_of_field(s)) == 0)
    return 0;
  if (s->in_trailer) {
    end_request(s);
    return 1;
  }
  request->has_head = true;
  s->left = request->content_length;
  if (request->chunked && s->has_length)
    s->fault = &both_fault;
  else if (request->chunked)
    expect(s, SCAN_CHUNK_SIZE);
  else if (s->left > 0)
    expect(s, SCAN_BODY);
  else
    end_request(s);
  if (request->chunked)
    s->left = 0;
  return 1;
}

// --- Bodies

static size_t take_data(request_scan *s, size_t size)
{
  size_t taken = s->left < size ? (size_t)s->left : size;
  last_request(s)->body_bytes += taken;
  s->left -= taken;
  return taken;
}

static size_t read_body(request_scan *s, char *data, size_t size)
{
  (void)data;
  size_t taken = take_data(s, size);
  if (s->left == 0)
    end_request(s);
  return taken;
}

static size_t read_chunk_size(request_scan *s, char *data, size_t size)
{
  (void)size;
  int digit = hex_digit(*data);
  if (digit >= 0) {
    if (s->left >> 60 != 0)
      return fail(s, &chunk_size_fault);
    s->left = s->left * 16 + (uint64_t)digit;
    s->count = 1;
    return 1;
  }
  if (s->count == 0 || (*data != '\r' && *data != ';'))
    return fail(s, &chunk_fault);
  if (*data == ';' && !s->takes_extensions)
    return fail(s, &extension_fault);
  expect(s, *data == ';' ? SCAN_EXTENSION : SCAN_CHUNK_LF);
  return 1;
}

static size_t read_extension(request_scan *s, char *data, size_t size)
{
  size_t taken = run_of(VALUE, data, size);
  if (taken == size)
    return taken;
  return take_byte(s, data + taken, '\r', SCAN_CHUNK_LF, &chunk_fault) + taken;
}

static size_t read_chunk_lf(request_scan *s, char *data, size_t size)
{
  (void)size;
  s->in_trailer = s->left == 0;
  return take_byte(s, data, '\n', s->in_trailer ? SCAN_FIELD : SCAN_CHUNK_DATA, &chunk_fault);
}

static size_t read_chunk_data(request_scan *s, char *data, size_t size)
{
  (void)data;
  size_t taken = take_data(s, size);
  if (s->left == 0)
    expect(s, SCAN_CHUNK_END);
  return taken;
}

static size_t read_chunk_end(request_scan *s, char *data, size_t size)
{
  (void)size;
  return take_byte(s, data, '\r', SCAN_CHUNK_END_LF, &chunk_fault);
}

static size_t read_chunk_end_lf(request_scan *s, char *data, size_t size)
{
  (void)size;
  return take_byte(s, data, '\n', SCAN_CHUNK_SIZE, &chunk_fault);
}

// --- All of them

// Takes at least one byte, changes the state, or finds a fault; `size` is not 0.
typedef size_t read_state(request_scan *s, char *data, size_t size);

static read_state *const states[SCAN_STATES] = {
    [SCAN_START] = read_start,
    [SCAN_START_LF] = read_start_lf,
    [SCAN_METHOD] = read_method,
    [SCAN_BEFORE_TARGET] = read_before_target,
    [SCAN_TARGET] = read_target,
    [SCAN_QUERY] = read_query,
    [SCAN_BEFORE_VERSION] = read_before_version,
    [SCAN_VERSION] = read_version,
    [SCAN_LINE_LF] = read_line_lf,
    [SCAN_FIELD] = read_field,
    [SCAN_NAME] = read_name,
    [SCAN_VALUE] = read_value,
    [SCAN_VALUE_LF] = read_value_lf,
    [SCAN_FIELDS_LF] = read_fields_lf,
    [SCAN_BODY] = read_body,
    [SCAN_CHUNK_SIZE] = read_chunk_size,
    [SCAN_EXTENSION] = read_extension,
    [SCAN_CHUNK_LF] = read_chunk_lf,
    [SCAN_CHUNK_DATA] = read_chunk_data,
    [SCAN_CHUNK_END] = read_chunk_end,
    [SCAN_CHUNK_END_LF] = read_chunk_end_lf,
};

void request_scan_read(request_scan *s, char *data, size_t size)
{
  size_t at = 0;
  while (at < size && s->fault == NULL)
    at += states[s->state](s, data + at, size - at);
  // After a fault, any byte may be part of a query.
  if (s->fault != NULL && at < size)
    join_arguments(data + at, size - at);
}

const scanned_request *request_scan_first(const request_scan *s)
{
  return s->waiting > 0 ? &s->requests[s->first] : NULL;
}

// Only the last request can have the fault, because nothing behind it is read.
const scan_fault *request_scan_first_fault(const request_scan *s)
{
  return s->waiting == (s->lost ? 0 : 1) ? s->fault : NULL;
}

void request_scan_drop_first(request_scan *s)
{
  if (s->waiting == 0)
    return;
  s->waiting--;
  s->first = s->waiting == 0 ? 0 : s->first + 1;
}

void request_scan_init(request_scan *s, bool takes_extensions)
{
  *s = (request_scan){.takes_extensions = takes_extensions, .room = SCAN_INLINE_REQUESTS};
  s->requests = s->inline_requests;
}

void request_scan_fini(request_scan *s)
{
  if (s->requests != s->inline_requests)
    free(s->requests);
}
