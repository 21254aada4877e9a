// SPDX-License-Identifier: Apache-2.0
// The scanner. It may read beyond the text's end, so it checks each token against the end after it
// has taken it.
#include "frontend/common/json/json_scan.h"

#include "base/buffer.h"
#include "base/number.h"
#include "base/text.h"
#include "frontend/common/net/request_limits.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define EXCERPT_BYTES     24
#define DESCRIPTION_BYTES 320

static bool take_word(json_cursor *c, const char *word)
{
  size_t size = strlen(word);
  if ((size_t)(c->end - c->at) < size || memcmp(c->at, word, size) != 0)
    return false;
  c->at += size;
  return true;
}

json_cursor json_begin(slice text, const json_host *host, arena *a)
{
  json_cursor c = {text.data, text.data, text.data + text.size, a, host};
  take_word(&c, "\xef\xbb\xbf");
  return c;
}

char json_peek(json_cursor *c)
{
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
    c->at++;
  return c->at < c->end ? *c->at : '\0';
}

// ---- errors ----

static void print_path(const json_path *path, buffer *out)
{
  if (path == NULL)
    return;
  print_path(path->outer, out);
  if (path->key == NULL) {
    buffer_append_format(out, "[%zu]", path->index);
    return;
  }
  if (out->size > 0)
    buffer_append_char(out, '.');
  buffer_append(out, path->key, path->key_size < 64 ? path->key_size : 64);
}

// The innermost member of the path.
static const char *member_of(const json_path *path, size_t *size)
{
  while (path != NULL && path->key == NULL && path->known_as == NULL)
    path = path->outer;
  if (path == NULL || path->known_as != NULL) {
    const char *name = path == NULL ? "request JSON" : path->known_as;
    *size = strlen(name);
    return name;
  }
  *size = path->key_size < 64 ? path->key_size : 64;
  return path->key;
}

error *json_fail_words(const json_path *path, const char *words, const char *format, ...)
{
  AUTO_BUFFER buffer where = BUFFER_EMPTY;
  va_list arguments;
  char text[512];
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  print_path(path, &where);
  if (words != NULL)
    return error_new(ERROR_INVALID_ARG, "%s: %.*s%s%s", words, (int)where.size,
                     where.size == 0 ? "" : where.data, where.size == 0 ? "" : ": ", text);
  if (where.size == 0)
    buffer_append_text(&where, "request JSON");
  return error_new(ERROR_INVALID_ARG, "Unable to parse '%.*s': %s", (int)where.size, where.data,
                   text);
}

// Is the fault a comma before the closing bracket?
static bool is_behind_comma(const json_cursor *c)
{
  const char *before = c->at;
  if (c->at >= c->end || (*c->at != ']' && *c->at != '}'))
    return false;
  while (before > c->begin && strchr(" \n\t\r", before[-1]) != NULL && before[-1] != '\0')
    before--;
  return before > c->begin && before[-1] == ',';
}

// What to do about a common fault at the cursor.
static const char *advice_for(const json_cursor *c)
{
  if (is_behind_comma(c))
    return ": remove the comma before it";
  if (text_begins_typographic_quote(c->at, (size_t)(c->end - c->at)))
    return ": a typographic quote, write \" in its place";
  return *c->at == '\'' ? ": write \" in place of '" : "";
}

// "expected <what>, got <what stands at the cursor> at byte <n>"
static void describe(const json_cursor *c, const char *expected, char *out, size_t out_size)
{
  char excerpt[EXCERPT_BYTES + 1];
  size_t left = c->at < c->end ? (size_t)(c->end - c->at) : 0;
  size_t size = left < EXCERPT_BYTES ? left : EXCERPT_BYTES;
  size_t kept = 0;
  while (kept < size) { // whole characters only, none that could break a line
    size_t length = text_utf8_length(c->at + kept, size - kept);
    if (length == 0 || (unsigned char)c->at[kept] < ' ')
      break;
    memcpy(excerpt + kept, c->at + kept, length);
    kept += length;
  }
  excerpt[kept] = '\0';
  if (left == 0)
    snprintf(out, out_size, "expected %s, got the end of the text at byte %zu", expected,
             (size_t)(c->end - c->begin));
  else if (kept == 0)
    snprintf(out, out_size, "expected %s, got byte 0x%02x at byte %zu", expected,
             (unsigned char)*c->at, (size_t)(c->at - c->begin));
  else
    snprintf(out, out_size, "expected %s, got '%s%s' at byte %zu%s", expected, excerpt,
             kept < left ? "…" : "", (size_t)(c->at - c->begin), advice_for(c));
}

error *json_fail_syntax(const json_cursor *c, const json_path *path, const char *expected)
{
  AUTO_BUFFER buffer where = BUFFER_EMPTY;
  char description[DESCRIPTION_BYTES];
  describe(c, expected, description, sizeof(description));
  print_path(path, &where);
  if (where.size == 0)
    return error_new(ERROR_INVALID_ARG, "failed to parse the request JSON buffer: %s", description);
  return error_new(ERROR_INVALID_ARG, "failed to parse the request JSON buffer: in '%.*s': %s",
                   (int)where.size, where.data, description);
}

// Is there a value of any kind?
static bool begins_value(const json_cursor *c)
{
  static const char *const words[] = {"true", "false", "null", "NaN", "Infinity"};
  json_cursor ahead = *c;
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
    if (take_word(&ahead, words[i]))
      return true;
  return c->at < c->end && *c->at != '\0' && strchr("{[\"-0123456789", *c->at) != NULL;
}

error *json_fail_kind_as(const json_cursor *c, const json_path *path, const char *words,
                         const char *expected)
{
  char description[DESCRIPTION_BYTES];
  if (!begins_value(c))
    return json_fail_syntax(c, path, expected);
  describe(c, expected, description, sizeof(description));
  return json_fail_words(path, words, "%s", description);
}

error *json_fail_kind(const json_cursor *c, const json_path *path, const char *access,
                      const char *expected)
{
  size_t size;
  char words[192];
  const char *member = member_of(path, &size);
  snprintf(words, sizeof(words), "Unable to parse '%.*s': attempt to access JSON %s", (int)size,
           member, access);
  return json_fail_kind_as(c, path, words, expected);
}

// ---- strings ----

// Length of the escape at `at`; 0 when it is none.
static size_t escape_size(const char *at, const char *end)
{
  if (end - at < 2)
    return 0;
  if (strchr("\"\\/bfnrt", at[1]) != NULL && at[1] != '\0')
    return 2;
  if (at[1] != 'u' || end - at < 6)
    return 0;
  for (int i = 2; i < 6; i++)
    if (text_hex_digit(at[i]) < 0)
      return 0;
  return 6;
}

// The error's text for `byte` within a string.
static const char *expected_in_string(unsigned char byte)
{
  if (byte == '\\')
    return "an escape of JSON";
  if (byte >= ' ')
    return "UTF-8 in a string";
  if (byte == '\n')
    return "a line end in a string to be written \\n";
  if (byte == '\t')
    return "a tab in a string to be written \\t";
  return "a control character in a string to be written \\u and four digits";
}

// Takes a string; *raw is the text between its quotes. Data of tensors and ignored members need not
// be UTF-8.
static error *take_raw(json_cursor *c, const json_path *path, bool utf8, slice *raw, bool *escaped)
{
  if (json_peek(c) != '"')
    return json_fail_kind(c, path, "non-string as string", "a string");
  json_cursor at = *c;
  *escaped = false;
  for (at.at++; at.at < at.end && *at.at != '"';) {
    unsigned char byte = (unsigned char)*at.at;
    size_t length = 1;
    if (byte == '\\') {
      *escaped = true;
      length = escape_size(at.at, at.end);
    } else if (byte < ' ') {
      length = 0;
    } else if (byte >= 0x80 && utf8) {
      length = text_utf8_length(at.at, (size_t)(at.end - at.at));
    }
    if (length == 0)
      return json_fail_syntax(&at, path, expected_in_string(byte));
    at.at += length;
  }
  if (at.at >= at.end)
    return json_fail_syntax(&at, path, "'\"'");
  *raw = (slice){c->at + 1, (size_t)(at.at - c->at - 1)};
  c->at = at.at + 1;
  return NULL;
}

static uint32_t hex4(const char *text)
{
  uint32_t value = 0;
  for (int i = 0; i < 4; i++)
    value = value << 4 | (uint32_t)text_hex_digit(text[i]);
  return value;
}

// Takes \uXXXX, with the second half of a surrogate pair; a lone surrogate is an error.
static bool take_unicode(const char **at, const char *end, uint32_t *code)
{
  *code = hex4(*at + 2);
  *at += 6;
  if (*code < 0xd800 || *code > 0xdfff)
    return true;
  if (*code >= 0xdc00 || end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
    return false;
  uint32_t low = hex4(*at + 2);
  if (low < 0xdc00 || low > 0xdfff)
    return false;
  *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
  *at += 6;
  return true;
}

static char unescape(char c)
{
  static const char from[] = "bfnrt";
  static const char to[] = "\b\f\n\r\t";
  const char *found = strchr(from, c);
  return found != NULL && c != '\0' ? to[found - from] : c;
}

// Copies [at, close) without escapes; returns the size, or SIZE_MAX for a lone surrogate.
static size_t copy_unescaped(const char *at, const char *close, char *out)
{
  char *start = out;
  while (at < close) {
    uint32_t code;
    if (*at != '\\') {
      *out++ = *at++;
    } else if (at[1] != 'u') {
      *out++ = unescape(at[1]);
      at += 2;
    } else if (take_unicode(&at, close, &code)) {
      out += text_put_utf8(out, code);
    } else {
      return SIZE_MAX;
    }
  }
  return (size_t)(out - start);
}

// `out` has room for the text of `raw`, which has been taken.
static error *copy_raw(json_cursor *c, const json_path *path, slice raw, bool escaped, char *out,
                       size_t *size)
{
  *size = raw.size;
  if (escaped)
    *size = copy_unescaped(raw.data, raw.data + raw.size, out);
  else
    memcpy(out, raw.data, raw.size);
  if (*size != SIZE_MAX)
    return NULL;
  c->at = raw.data - 1; // the string's begin, for the error
  return json_fail_syntax(c, path, "a string without lone surrogates");
}

error *json_string_copy(json_cursor *c, const json_path *path, char *out, size_t *size)
{
  slice raw;
  bool escaped;
  RETURN_IF_ERROR(take_raw(c, path, false, &raw, &escaped));
  return copy_raw(c, path, raw, escaped, out, size);
}

static error *take_string(json_cursor *c, const json_path *path, bool view_allowed, slice *text)
{
  bool escaped;
  RETURN_IF_ERROR(take_raw(c, path, true, text, &escaped));
  if (!escaped && view_allowed)
    return NULL;
  char *copy = arena_allocate(c->arena, text->size + 1);
  if (copy == NULL)
    return error_no_memory();
  RETURN_IF_ERROR(copy_raw(c, path, *text, escaped, copy, &text->size));
  copy[text->size] = '\0';
  text->data = copy;
  return NULL;
}

error *json_string_view(json_cursor *c, const json_path *path, slice *text)
{
  return take_string(c, path, true, text);
}

error *json_text(json_cursor *c, const json_path *path, const char **result)
{
  slice text;
  RETURN_IF_ERROR(take_string(c, path, false, &text));
  if (memchr(text.data, '\0', text.size) != NULL)
    return json_fail_text(path, "expected a string without \\u0000");
  *result = text.data;
  return NULL;
}

// ---- scalars ----

error *json_bool(json_cursor *c, const json_path *path, bool *value)
{
  json_peek(c);
  *value = take_word(c, "true");
  return *value || take_word(c, "false")
             ? NULL
             : json_fail_kind(c, path, "non-boolean as boolean", "true or false");
}

bool json_take_u64(json_cursor *c, uint64_t *value)
{
  const char *end;
  json_peek(c);
  if (c->at >= c->end || number_read_u64(c->at, &end, value) != NUMBER_READ_OK || end > c->end)
    return false;
  c->at = end;
  return true;
}

error *json_u64(json_cursor *c, const json_path *path, uint64_t *value)
{
  return json_take_u64(c, value)
             ? NULL
             : json_fail_kind(c, path, "non-unsigned-integer as unsigned-integer",
                              "an integer in [0, 18446744073709551615]");
}

// ---- containers ----

error *json_elements(json_cursor *c, const json_path *path, json_visit_element *visit,
                     void *context)
{
  if (json_peek(c) != '[')
    return json_fail_kind(c, path, "non-array as array", "an array");
  c->at++;
  if (json_peek(c) == ']') {
    c->at++;
    return NULL;
  }
  for (size_t i = 0;; i++) {
    const json_path element = {.outer = path, .index = i};
    RETURN_IF_ERROR(visit(context, c, &element));
    char next = json_peek(c);
    if (next != ',' && next != ']')
      return json_fail_syntax(c, path, "',' or ']'");
    c->at++;
    if (next == ']')
      return NULL;
  }
}

// Takes a member's name and its colon. The name is unescaped, and must be UTF-8, only with `read`.
static error *take_name(json_cursor *c, const json_path *path, bool read, slice *name)
{
  bool escaped;
  if (json_peek(c) != '"')
    return json_fail_syntax(c, path, "a member's name in quotes");
  RETURN_IF_ERROR(read ? json_string_view(c, path, name)
                       : take_raw(c, path, false, name, &escaped));
  if (json_peek(c) != ':')
    return json_fail_syntax(c, path, "':'");
  c->at++;
  return NULL;
}

error *json_members(json_cursor *c, const json_path *path, json_visit_member *visit, void *context)
{
  if (json_peek(c) != '{')
    return json_fail_kind(c, path, "non-object as object", "an object");
  c->at++;
  if (json_peek(c) == '}') {
    c->at++;
    return NULL;
  }
  for (;;) {
    slice key;
    RETURN_IF_ERROR(take_name(c, path, true, &key));
    const json_path member = {.outer = path, .key = key.data, .key_size = key.size};
    RETURN_IF_ERROR(visit(context, c, &member, key));
    char next = json_peek(c);
    if (next != ',' && next != '}')
      return json_fail_syntax(c, path, "',' or '}'");
    c->at++;
    if (next == '}')
      return NULL;
  }
}

typedef struct object_context {
  const json_schema *schema;
  void *target;
  unsigned *seen;
} object_context;

static error *read_member(const json_member *m, void *target, json_cursor *c, const json_path *path)
{
  void *value = (char *)target + m->offset;
  switch (m->kind) {
  case JSON_READ:
    return m->read(target, c, path);
  case JSON_LIST:
    return json_elements(c, path, m->read, target);
  case JSON_TEXT:
    return json_text(c, path, value);
  case JSON_NAME:
    RETURN_IF_ERROR(json_text(c, path, value));
    return strlen(*(const char **)value) <= REQUEST_NAME_MAX_BYTES
               ? NULL
               : json_fail_text(path, "expected a name of at most %d bytes",
                                REQUEST_NAME_MAX_BYTES);
  case JSON_BOOL:
    return json_bool(c, path, value);
  default:
    return json_u64(c, path, value);
  }
}

static error *visit_member(void *context, json_cursor *c, const json_path *path, slice key)
{
  object_context *o = context;
  const json_member *members = o->schema->members;
  for (unsigned i = 0; i < JSON_MEMBERS_MAX && members[i].name.size > 0; i++) {
    if (!slice_equal(key, members[i].name))
      continue;
    if ((*o->seen & 1u << i) != 0)
      return json_fail_text(path, "expected this member once");
    *o->seen |= 1u << i;
    return read_member(&members[i], o->target, c, path);
  }
  return o->schema->visit_other == NULL ? json_skip(c, path)
                                        : o->schema->visit_other(o->target, c, path, key);
}

error *json_object_read(json_cursor *c, const json_path *path, const json_schema *schema,
                        void *target, unsigned *seen)
{
  object_context o = {schema, target, seen};
  if (schema->refusal != NULL && json_peek(c) != '{')
    return json_fail_kind_as(c, path, schema->refusal, "an object");
  return json_members(c, path, visit_member, &o);
}

// ---- skipping ----

static error *skip_scalar(json_cursor *c, const json_path *path)
{
  const char *end;
  double number;
  if (take_word(c, "true") || take_word(c, "false") || take_word(c, "null"))
    return NULL;
  if (c->at >= c->end || number_read_f64(c->at, &end, &number) == NUMBER_READ_NOT_A_NUMBER ||
      end > c->end)
    return json_fail_syntax(c, path, "a value");
  c->at = end;
  return NULL;
}

error *json_skip(json_cursor *c, const json_path *path)
{
  char closers[JSON_MAX_DEPTH]; // the closing bracket of each open container
  size_t depth = 0;
  slice passed_over;
  bool escaped;
  for (;;) {
    char next = json_peek(c);
    if (next == '[' || next == '{') {
      if (depth == JSON_MAX_DEPTH)
        return json_fail_text(path, "JSON nesting depth exceeds maximum allowed limit (%d)",
                              JSON_MAX_DEPTH);
      closers[depth++] = next == '[' ? ']' : '}';
      c->at++;
      if (json_peek(c) != closers[depth - 1]) {
        if (next == '{')
          RETURN_IF_ERROR(take_name(c, path, false, &passed_over));
        continue; // its first value follows
      }
    } else if (next == '"') {
      RETURN_IF_ERROR(take_raw(c, path, false, &passed_over, &escaped));
    } else {
      RETURN_IF_ERROR(skip_scalar(c, path));
    }
    while (depth > 0 && json_peek(c) == closers[depth - 1]) {
      c->at++;
      depth--;
    }
    if (depth == 0)
      return NULL;
    if (json_peek(c) != ',')
      return json_fail_syntax(c, path, closers[depth - 1] == ']' ? "',' or ']'" : "',' or '}'");
    c->at++;
    if (closers[depth - 1] == '}')
      RETURN_IF_ERROR(take_name(c, path, false, &passed_over));
  }
}

error *json_finish(json_cursor *c)
{
  json_peek(c);
  while (c->at < c->end && *c->at == '\0')
    c->at++;
  return c->at < c->end ? json_fail_syntax(c, NULL, "the end of the text") : NULL;
}
