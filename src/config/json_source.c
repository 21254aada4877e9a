// SPDX-License-Identifier: Apache-2.0
// Tokens of lenient JSON, for the reader of messages.
#include "config/json_source.h"

#include "base/json_bounds.h"
#include "base/text.h"

#include <string.h>

#define MAX_SHOWN 20 // bytes of the text that a message quotes

void json_source_init(json_source *s, slice text, size_t max_values)
{
  *s = (json_source){.text = text, .max_values = max_values, .string = BUFFER_EMPTY};
}

void json_source_fini(json_source *s)
{
  buffer_fini(&s->string);
}

// ---- characters ----

static bool is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// The next character; '\0' at the end (and for a NUL, which is never valid).
static char peek(const json_source *s)
{
  return s->at < s->text.size ? s->text.data[s->at] : '\0';
}

static char skip_blanks(json_source *s)
{
  while (is_blank(peek(s)))
    s->at++;
  return peek(s);
}

// The letters and digits at `at`.
static slice word_at(const json_source *s, size_t at)
{
  size_t end = at;
  while (end < s->text.size && (is_letter(s->text.data[end]) || is_digit(s->text.data[end])))
    end++;
  return (slice){s->text.data + at, end - at};
}

// ---- errors ----

// Advice for a word of another language in place of JSON's.
static const char *advice_for(slice word)
{
  static const struct {
    const char *word, *advice;
  } known[] = {
      {"True", ": write true"},
      {"False", ": write false"},
      {"None", ": write null"},
      {"NaN", ": write \"NaN\", in quotes"},
      {"Infinity", ": write \"Infinity\", in quotes"},
  };
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (slice_equal_text(word, known[i].word))
      return known[i].advice;
  return "";
}

// Appends the text at `at` as a message quotes it.
static void append_found(const json_source *s, size_t at, buffer *out)
{
  const slice word = word_at(s, at);
  if (at >= s->text.size) {
    buffer_append_text(out, "the end of the text");
  } else if (word.size > 0) {
    buffer_append_format(out, "'%.*s'%s", (int)(word.size < MAX_SHOWN ? word.size : MAX_SHOWN),
                         word.data, advice_for(word));
  } else {
    const size_t length = text_utf8_length(s->text.data + at, s->text.size - at);
    if (length == 0 || (unsigned char)s->text.data[at] < ' ')
      buffer_append_format(out, "a byte of value %u", (unsigned char)s->text.data[at]);
    else
      buffer_append_format(out, "'%.*s'%s", (int)length, s->text.data + at,
                           text_begins_typographic_quote(s->text.data + at, length)
                               ? ", a typographic quote: write \" in its place"
                               : "");
  }
}

static error *refuse(const json_source *s, size_t at, const char *expected)
{
  size_t line = 1, column = 1;
  for (size_t i = 0; i < at; i++) {
    column = s->text.data[i] == '\n' ? 1 : column + 1;
    line += s->text.data[i] == '\n';
  }
  AUTO_BUFFER buffer found = BUFFER_EMPTY;
  append_found(s, at, &found);
  buffer_append_char(&found, '\0');
  if (found.failed)
    return error_no_memory();
  return error_new(ERROR_INVALID_ARG,
                   "failed to parse JSON at line %zu, column %zu: expected %s, got %s", line,
                   column, expected, found.data);
}

// ---- strings ----

static bool read_hex(const json_source *s, size_t at, uint32_t *code)
{
  *code = 0;
  for (size_t i = at; i < at + 4; i++) {
    const int digit = i < s->text.size ? text_hex_digit(s->text.data[i]) : -1;
    if (digit < 0)
      return false;
    *code = *code * 16 + (uint32_t)digit;
  }
  return true;
}

// After "\u": one code, or a surrogate pair.
static error *read_code(json_source *s, buffer *out)
{
  const size_t begin = s->at - 2;
  uint32_t code, low;
  char bytes[4];
  if (!read_hex(s, s->at, &code))
    return refuse(s, begin, "four hexadecimal digits behind \\u");
  s->at += 4;
  if (code >= 0xD800 && code < 0xDC00 && s->at + 6 <= s->text.size && s->text.data[s->at] == '\\' &&
      s->text.data[s->at + 1] == 'u' && read_hex(s, s->at + 2, &low) && low >= 0xDC00 &&
      low < 0xE000) {
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    s->at += 6;
  }
  if (code >= 0xD800 && code < 0xE000)
    return refuse(s, begin, "both halves of a character (\\ud83d\\ude00)");
  if (code == 0)
    return refuse(s, begin, "a text without \\u0000");
  buffer_append(out, bytes, text_put_utf8(bytes, code));
  return NULL;
}

// After a backslash; a letter without a meaning stands for itself.
static error *read_escape(json_source *s, buffer *out)
{
  static const char letters[] = "bfnrtv", meant[] = "\b\f\n\r\t\v";
  const char c = peek(s);
  if (c == '\0')
    return refuse(s, s->at, "a character behind the backslash");
  s->at++;
  if (c == 'u')
    return read_code(s, out);
  const char *found = strchr(letters, c);
  buffer_append_char(out, found == NULL ? c : meant[found - letters]);
  return NULL;
}

static error *read_string(json_source *s, buffer *out)
{
  const size_t begin = s->at;
  const char quote = s->text.data[s->at++];
  for (;;) {
    const char c = peek(s);
    if (s->at >= s->text.size)
      return refuse(s, begin, "a text with a quote at its end");
    const size_t length = text_utf8_length(s->text.data + s->at, s->text.size - s->at);
    if (c == '\0' || length == 0)
      return refuse(s, s->at, "a text in UTF-8 without a NUL");
    if (c == quote)
      break;
    if (c == '\\') {
      s->at++;
      RETURN_IF_ERROR(read_escape(s, out));
      continue;
    }
    buffer_append(out, s->text.data + s->at, length);
    s->at += length;
  }
  s->at++;
  return out->failed ? error_no_memory() : NULL;
}

// ---- values ----

static error *read_number(json_source *s, json_token *token)
{
  const size_t begin = s->at;
  while (s->at < s->text.size && (is_digit(peek(s)) || strchr(".eE+-", peek(s)) != NULL) &&
         peek(s) != '\0')
    s->at++;
  *token = (json_token){JSON_KIND_NUMBER, {s->text.data + begin, s->at - begin}};
  const size_t sign = token->text.data[0] == '-';
  const char *digits = token->text.data + sign;
  const size_t count = token->text.size - sign;
  if (count == 0 || !is_digit(digits[0]))
    return refuse(s, begin, "a number");
  if (digits[0] == '0' && count > 1 && is_digit(digits[1]))
    return refuse(s, begin, "a number without a zero before it");
  return NULL;
}

static error *read_word(json_source *s, json_token *token)
{
  const slice word = word_at(s, s->at);
  if (slice_equal_text(word, "true"))
    token->kind = JSON_KIND_TRUE;
  else if (slice_equal_text(word, "false"))
    token->kind = JSON_KIND_FALSE;
  else if (slice_equal_text(word, "null"))
    token->kind = JSON_KIND_NULL;
  else
    return refuse(s, s->at, "a value");
  token->text = word;
  s->at += word.size;
  return NULL;
}

static error *count_value(json_source *s, bool opens)
{
  if (++s->values > s->max_values)
    return error_new(ERROR_INVALID_ARG, "JSON has more than %zu values", s->max_values);
  if (opens && ++s->depth > JSON_BOUNDS_DEPTH)
    return error_new(ERROR_INVALID_ARG, "JSON nesting depth exceeds maximum allowed limit (%d)",
                     JSON_BOUNDS_DEPTH);
  return NULL;
}

error *json_source_value(json_source *s, json_token *token)
{
  const char c = skip_blanks(s);
  RETURN_IF_ERROR(count_value(s, c == '{' || c == '['));
  *token = (json_token){JSON_KIND_NULL, {NULL, 0}};
  if (c == '{' || c == '[') {
    token->kind = c == '{' ? JSON_KIND_OBJECT : JSON_KIND_LIST;
    s->at++;
    return NULL;
  }
  if (c == '"' || c == '\'') {
    s->string.size = 0;
    RETURN_IF_ERROR(read_string(s, &s->string));
    buffer_append_char(&s->string, '\0');
    *token = (json_token){JSON_KIND_STRING, {s->string.data, s->string.size - 1}};
    return s->string.failed ? error_no_memory() : NULL;
  }
  if (c == '-' || is_digit(c))
    return read_number(s, token);
  return read_word(s, token);
}

error *json_source_more(json_source *s, char close, bool first, bool *more)
{
  *more = false;
  if (!first && skip_blanks(s) != close) {
    if (peek(s) != ',')
      return refuse(s, s->at, close == '}' ? "',' or '}'" : "',' or ']'");
    s->at++;
  }
  if (skip_blanks(s) != close) {
    *more = true;
    return NULL;
  }
  s->at++;
  s->depth--;
  return NULL;
}

// A word is a name unless it is one of the three values.
static error *read_bare_name(json_source *s, buffer *name)
{
  const slice word = word_at(s, s->at);
  if (!is_letter(peek(s)) || slice_equal_text(word, "true") || slice_equal_text(word, "false") ||
      slice_equal_text(word, "null"))
    return refuse(s, s->at, "a name or '}'");
  buffer_append(name, word.data, word.size);
  s->at += word.size;
  return NULL;
}

error *json_source_name(json_source *s, buffer *name)
{
  const char c = skip_blanks(s);
  name->size = 0;
  RETURN_IF_ERROR(c == '"' || c == '\'' ? read_string(s, name) : read_bare_name(s, name));
  buffer_append_char(name, '\0');
  if (name->failed)
    return error_no_memory();
  if (skip_blanks(s) != ':')
    return refuse(s, s->at, "':' behind the name");
  s->at++;
  return NULL;
}

error *json_source_end(json_source *s)
{
  skip_blanks(s);
  return s->at == s->text.size ? NULL : refuse(s, s->at, "nothing behind the value");
}
