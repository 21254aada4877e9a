// SPDX-License-Identifier: Apache-2.0
// The bytes of a connection, in pieces of any size, against a reading of the whole text at once:
// how many requests there are, where each body ends, and which one is at fault. The first byte says
// how long the pieces are and whether extensions of chunks are taken.
#include "frontend/http/transport/request_scan.h"
#include "fuzz.h"

#include <ctype.h>
#include <stdbool.h>
#include <strings.h>

#define MAX_REQUESTS 64

// --- The plain reading: lines, each cut off whole

typedef enum outcome {
  WANTS_MORE,
  GOOD,
  FAULTY
} outcome;

typedef struct text {
  const char *at;
  const char *end;
} text;

typedef struct plain {
  bool has_head, chunked;
  uint64_t length, body_bytes;
} plain;

// Which bytes can a line not have, whatever it is? A CR is one if no LF follows.
static bool is_control(const char *c, const char *end)
{
  if (*c == '\r')
    return c + 1 < end && c[1] != '\n';
  return (unsigned char)*c < ' ' ? *c != '\t' : *c == 0x7f;
}

// Cuts a line off, without its CRLF. WANTS_MORE: its LF, at least, has not come. `whole`: its CR
// has.
static outcome take_line(text *t, slice *line, bool *whole)
{
  const char *c = t->at;
  while (c < t->end && *c != '\r' && !is_control(c, t->end))
    c++;
  *line = (slice){t->at, (size_t)(c - t->at)};
  *whole = c < t->end && *c == '\r';
  if (c < t->end && is_control(c, t->end))
    return FAULTY;
  if (t->end - c < 2)
    return WANTS_MORE;
  t->at = c + 2;
  return GOOD;
}

static bool is_token_char(char c)
{
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static size_t count_token(slice s)
{
  size_t size = 0;
  while (size < s.size && is_token_char(s.data[size]))
    size++;
  return size;
}

static void skip(slice *s, size_t size)
{
  *s = (slice){s->data + size, s->size - size};
}

static size_t count_blanks(slice s, const char *blanks)
{
  size_t size = 0;
  while (size < s.size && s.data[size] != '\0' && strchr(blanks, s.data[size]) != NULL)
    size++;
  return size;
}

// The first line, whole or as much as came.
static bool may_be_request_line(slice line, bool whole)
{
  size_t method = count_token(line);
  skip(&line, method);
  if (line.size == 0)
    return !whole && method <= SCAN_MAX_TARGET_BYTES;
  if (method == 0 || method > SCAN_MAX_TARGET_BYTES || line.data[0] != ' ')
    return false;
  skip(&line, count_blanks(line, " "));
  const char *blank = memchr(line.data, ' ', line.size);
  size_t target = blank == NULL ? line.size : (size_t)(blank - line.data);
  if (target > SCAN_MAX_TARGET_BYTES || memchr(line.data, '\t', target) != NULL)
    return false;
  if (blank == NULL)
    return !whole;
  skip(&line, target);
  skip(&line, count_blanks(line, " "));
  static const char pattern[] = "HTTP/0.0";
  for (size_t i = 0; i < line.size; i++) {
    bool digit = line.data[i] >= '0' && line.data[i] <= '9';
    if (i >= 8 || (pattern[i] == '0' ? !digit : line.data[i] != pattern[i]))
      return false;
  }
  return whole ? line.size == 8 && line.data[5] == '1' : true;
}

static bool is_named_so(slice name, const char *expected)
{
  return name.size == strlen(expected) && strncasecmp(name.data, expected, name.size) == 0;
}

// A field, whole; of one whose end has not come only what is before the colon is judged.
static bool may_be_field(slice line, bool whole, slice *name, slice *value)
{
  *name = (slice){line.data, count_token(line)};
  skip(&line, name->size);
  if (line.size == 0)
    return !whole;
  if (name->size == 0 || line.data[0] != ':')
    return false;
  skip(&line, 1);
  skip(&line, count_blanks(line, " \t"));
  *value = line;
  return true;
}

typedef struct framing {
  bool has_length, has_coding;
} framing;

static bool take_framing(plain *p, framing *f, slice name, slice value)
{
  if (is_named_so(name, "transfer-encoding")) {
    bool good = !f->has_coding && is_named_so(value, "chunked");
    f->has_coding = p->chunked = true;
    return good;
  }
  if (!is_named_so(name, "content-length"))
    return true;
  bool good = !f->has_length && value.size > 0;
  f->has_length = true;
  for (size_t i = 0; good && i < value.size; i++) {
    good = isdigit((unsigned char)value.data[i]) && p->length <= INT64_MAX / 10;
    p->length = p->length * 10 + (uint64_t)(value.data[i] - '0');
    good = good && p->length <= INT64_MAX;
  }
  return good;
}

// Fields up to the empty line, of the head or behind a body.
static outcome take_fields(text *t, plain *p)
{
  framing f = {0};
  slice line, name, value;
  bool whole;
  for (;;) {
    const char *begin = t->at;
    outcome o = take_line(t, &line, &whole);
    if (line.size > 0 && !may_be_field(line, whole, &name, &value))
      return FAULTY;
    if (line.size > 0 && whole && p != NULL && !take_framing(p, &f, name, value))
      return FAULTY;
    if (o != GOOD)
      return o;
    if (line.size == 0 && p != NULL)
      p->has_head = true;
    if (line.size == 0)
      return p != NULL && f.has_length && f.has_coding ? FAULTY : GOOD;
    CHECK(t->at > begin);
  }
}

static outcome take_data(text *t, plain *p, uint64_t size)
{
  size_t there = (size_t)(t->end - t->at);
  size_t taken = size < there ? (size_t)size : there;
  p->body_bytes += taken;
  t->at += taken;
  return taken < size ? WANTS_MORE : GOOD;
}

static outcome take_chunk(text *t, bool extensions, uint64_t *size)
{
  slice line;
  bool whole;
  outcome o = take_line(t, &line, &whole);
  size_t digits = 0;
  for (*size = 0; digits < line.size && isxdigit((unsigned char)line.data[digits]); digits++) {
    const char digit[] = {line.data[digits], '\0'};
    if (*size > UINT64_MAX / 16)
      return FAULTY;
    *size = *size * 16 + strtoul(digit, NULL, 16);
  }
  if (digits < line.size && (line.data[digits] != ';' || !extensions))
    return FAULTY;
  if (digits == 0 && (whole || line.size > 0))
    return FAULTY;
  return o;
}

static outcome take_chunks(text *t, plain *p, bool extensions)
{
  for (;;) {
    uint64_t size;
    slice line;
    bool whole;
    outcome o = take_chunk(t, extensions, &size);
    if (o == GOOD && size == 0)
      return take_fields(t, NULL);
    if (o == GOOD)
      o = take_data(t, p, size);
    if (o != GOOD)
      return o;
    o = take_line(t, &line, &whole);
    if (line.size > 0)
      return FAULTY;
    if (o != GOOD)
      return o;
  }
}

static outcome take_request(text *t, plain *p, bool extensions)
{
  slice line;
  bool whole;
  outcome o = take_line(t, &line, &whole);
  if (!may_be_request_line(line, whole))
    return FAULTY;
  if (o == GOOD)
    o = take_fields(t, p);
  if (o != GOOD)
    return o;
  return p->chunked ? take_chunks(t, p, extensions) : take_data(t, p, p->length);
}

// --- Both

// What both say of the request that is due. False: there is nothing behind it.
static bool check_next(const request_scan *s, text *t, bool extensions)
{
  while (t->end - t->at >= 2 && memcmp(t->at, "\r\n", 2) == 0)
    t->at += 2;
  const scanned_request *found = request_scan_first(s);
  const scan_fault *fault = request_scan_first_fault(s);
  if (t->at == t->end || (t->end - t->at == 1 && *t->at == '\r')) {
    CHECK(found == NULL && fault == NULL);
    return false;
  }
  plain p = {0};
  outcome o = *t->at == '\r' ? FAULTY : take_request(t, &p, extensions);
  CHECK(found != NULL);
  CHECK((fault != NULL) == (o == FAULTY));
  CHECK(found->is_complete == (o == GOOD));
  CHECK(found->has_head == p.has_head);
  if (p.has_head) {
    CHECK(found->chunked == p.chunked);
    CHECK(found->content_length == p.length);
    CHECK(fault != NULL || found->body_bytes == p.body_bytes);
  }
  return o == GOOD;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input = {data, size};
  const uint8_t flags = fuzz_byte(&input);
  const bool extensions = (flags & 1) != 0;
  const size_t piece = (flags >> 1) + 1;
  char *scanned = fuzz_copy((slice){(const char *)input.data, input.size}, 0);
  request_scan s;
  request_scan_init(&s, extensions);
  for (size_t at = 0; at < input.size; at += piece)
    request_scan_read(&s, scanned + at, piece < input.size - at ? piece : input.size - at);
  for (size_t i = 0; i < input.size; i++)
    CHECK(scanned[i] == (char)input.data[i] || (scanned[i] == ';' && input.data[i] == '&'));
  text t = {(const char *)input.data, (const char *)input.data + input.size};
  while (check_next(&s, &t, extensions))
    request_scan_drop_first(&s);
  request_scan_fini(&s);
  free(scanned);
  return 0;
}
