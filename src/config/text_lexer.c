// SPDX-License-Identifier: Apache-2.0
// Cuts protobuf's text format into tokens and reads the escapes in strings. Rules and error texts
// are those of protobuf's own tokenizer, as its text parser configures it: # comments, an f after a
// float, no space needed between a number and a name. Called by text_read.c on a load thread.
#include "config/text_lexer.h"

#include "base/text.h"

#include <stdint.h>
#include <stdio.h>

#define TAB_WIDTH 8

void text_lexer_init(text_lexer *lexer, slice text, const char *file_name)
{
  *lexer = (text_lexer){.position = text.data,
                        .end = text.size == 0 ? text.data : text.data + text.size,
                        .file_name = file_name,
                        .line = 1,
                        .column = 1};
  if (text.size >= 3 && memcmp(text.data, "\xEF\xBB\xBF", 3) == 0)
    lexer->position += 3; // a byte-order mark
}

error *text_lexer_error(text_lexer *lexer, const token *at, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  error *e = error_new_va(ERROR_INVALID_ARG, format, arguments);
  va_end(arguments);
  lexer->failed_at = *at;
  if (lexer->file_name == NULL)
    return e;
  // error_wrap adds the ": " after "<file>:<line>:<column>".
  return error_wrap(e, "%s:%u:%u", lexer->file_name, at->line, at->column);
}

// ---- characters ----

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static bool is_octal(char c)
{
  return c >= '0' && c <= '7';
}

static bool is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_hex(char c)
{
  return text_hex_digit(c) >= 0;
}

static bool is_space(char c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// The next character; NUL at the end of the text. (A NUL in the text is no token either.)
static char peek(const text_lexer *lexer)
{
  return lexer->position < lexer->end ? *lexer->position : '\0';
}

static void advance(text_lexer *lexer)
{
  char c = *lexer->position++;
  if (c == '\n') {
    lexer->line++;
    lexer->column = 1;
  } else if (c == '\t') {
    lexer->column += TAB_WIDTH - (lexer->column - 1) % TAB_WIDTH;
  } else {
    lexer->column++;
  }
}

static bool skip_while(text_lexer *lexer, bool (*wanted)(char))
{
  const char *start = lexer->position;
  while (lexer->position < lexer->end && wanted(*lexer->position))
    advance(lexer);
  return lexer->position > start;
}

static bool skip_one(text_lexer *lexer, char a, char b)
{
  if (lexer->position == lexer->end || (*lexer->position != a && *lexer->position != b))
    return false;
  advance(lexer);
  return true;
}

static void skip_space_and_comments(text_lexer *lexer)
{
  while (lexer->position < lexer->end) {
    if (is_space(*lexer->position)) {
      advance(lexer);
    } else if (*lexer->position == '#') {
      while (lexer->position < lexer->end && *lexer->position != '\n')
        advance(lexer);
    } else {
      return;
    }
  }
}

// An error at the lexer's current character.
static error *error_here(text_lexer *lexer, const char *text)
{
  token here = {.kind = TOKEN_SYMBOL,
                .text = {lexer->position, lexer->position < lexer->end ? 1 : 0},
                .line = lexer->line,
                .column = lexer->column};
  return text_lexer_error(lexer, &here, "%s", text);
}

// ---- numbers ----

// Called after the digits before the point, or at the point.
static error *lex_fraction(text_lexer *lexer, bool *is_float)
{
  if (skip_one(lexer, '.', '.')) {
    *is_float = true;
    skip_while(lexer, is_digit);
  }
  if (skip_one(lexer, 'e', 'E')) {
    *is_float = true;
    skip_one(lexer, '-', '+');
    if (!skip_while(lexer, is_digit))
      return error_here(lexer, "\"e\" must be followed by exponent.");
  }
  if (skip_one(lexer, 'f', 'F'))
    *is_float = true;
  return NULL;
}

static error *lex_number(text_lexer *lexer, token_kind *kind)
{
  bool is_float = false;
  bool zero = peek(lexer) == '0';
  skip_one(lexer, '0', '0');
  if (zero && skip_one(lexer, 'x', 'X')) {
    if (!skip_while(lexer, is_hex))
      return error_here(lexer, "\"0x\" must be followed by hex digits.");
  } else if (zero && is_digit(peek(lexer))) {
    skip_while(lexer, is_octal);
    if (is_digit(peek(lexer)))
      return error_here(lexer, "Numbers starting with leading zero must be in octal.");
  } else {
    skip_while(lexer, is_digit);
    RETURN_IF_ERROR(lex_fraction(lexer, &is_float));
  }
  if (peek(lexer) == '.') {
    return error_here(lexer, is_float
                                 ? "Already saw decimal point or exponent; can't have another one."
                                 : "Hex and octal numbers must be integers.");
  }
  *kind = is_float ? TOKEN_FLOAT : TOKEN_INTEGER;
  return NULL;
}

// ---- strings ----

static error *lex_digits(text_lexer *lexer, int count, const char *complaint)
{
  for (int i = 0; i < count; i++) {
    if (!is_hex(peek(lexer)))
      return error_here(lexer, complaint);
    advance(lexer);
  }
  return NULL;
}

// Called after the backslash.
static error *lex_escape(text_lexer *lexer)
{
  char c = peek(lexer);
  if (c == '\0')
    return error_here(lexer, "Unexpected end of string.");
  if (strchr("abfnrtv\\?'\"", c) != NULL || is_octal(c)) {
    advance(lexer); // further octal digits are ordinary characters to the lexer
    return NULL;
  }
  if (skip_one(lexer, 'x', 'X'))
    return lex_digits(lexer, 1, "Expected hex digits for escape sequence.");
  if (skip_one(lexer, 'u', 'u'))
    return lex_digits(lexer, 4, "Expected four hex digits for \\u escape sequence.");
  if (skip_one(lexer, 'U', 'U')) {
    return lex_digits(lexer, 8, "Expected eight hex digits up to 10ffff for \\U escape sequence");
  }
  return error_here(lexer, "Invalid escape sequence in string literal.");
}

static error *lex_string(text_lexer *lexer)
{
  char quote = *lexer->position;
  advance(lexer);
  for (;;) {
    char c = peek(lexer);
    if (c == '\0')
      return error_here(lexer, "Unexpected end of string.");
    if (c == '\n')
      return error_here(lexer, "String literals cannot cross line boundaries.");
    advance(lexer);
    if (c == quote)
      return NULL;
    if (c == '\\')
      RETURN_IF_ERROR(lex_escape(lexer));
  }
}

// Reads up to `limit` digits of `base` at *from.
static uint32_t read_digits(const char **from, const char *end, int limit, uint32_t base)
{
  uint32_t value = 0;
  for (; limit > 0 && *from < end; limit--) {
    int digit = text_hex_digit(**from);
    if (digit < 0 || (uint32_t)digit >= base)
      break;
    value = value * base + (uint32_t)digit;
    (*from)++;
  }
  return value;
}

// Called after \u or \U. A high surrogate joins with a following \u escape of a low one.
static error *unescape_unicode(text_lexer *lexer, const token *string, int digits,
                               const char **from, const char *end, buffer *out)
{
  uint32_t code = read_digits(from, end, digits, 16);
  if (code >= 0xD800 && code < 0xDC00 && end - *from >= 6 && (*from)[0] == '\\' &&
      (*from)[1] == 'u') {
    const char *next = *from + 2;
    uint32_t low = read_digits(&next, end, 4, 16);
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      *from = next;
    }
  }
  if (code > 0x10FFFF)
    return text_lexer_error(lexer, string,
                            "Expected eight hex digits up to 10ffff for \\U escape sequence");
  if (code >= 0xD800 && code < 0xE000)
    return text_lexer_error(lexer, string, "Escape sequence U+%04X is half a surrogate pair.",
                            (unsigned)code);
  char text[4];
  buffer_append(out, text, text_put_utf8(text, code));
  return NULL;
}

// *from points after the backslash and moves to the end of the escape.
static error *unescape_one(text_lexer *lexer, const token *string, const char **from,
                           const char *end, buffer *out)
{
  static const char letters[] = "abfnrtv";
  static const char meanings[] = "\a\b\f\n\r\t\v";
  char c = *(*from)++;
  const char *letter = strchr(letters, c);
  if (is_octal(c)) {
    (*from)--;
    buffer_append_char(out, (char)read_digits(from, end, 3, 8));
  } else if (c == 'x' || c == 'X') {
    buffer_append_char(out, (char)read_digits(from, end, 2, 16));
  } else if (c == 'u' || c == 'U') {
    return unescape_unicode(lexer, string, c == 'u' ? 4 : 8, from, end, out);
  } else if (letter != NULL) {
    buffer_append_char(out, meanings[letter - letters]);
  } else {
    buffer_append_char(out, c); // \\ \? \' \"
  }
  return NULL;
}

error *text_lexer_unescape(text_lexer *lexer, const token *string, buffer *out)
{
  const char *from = string->text.data + 1;
  const char *end = string->text.data + string->text.size - 1;
  while (from < end) {
    const char *plain = from;
    while (from < end && *from != '\\')
      from++;
    buffer_append(out, plain, (size_t)(from - plain));
    if (from == end)
      break;
    from++;
    RETURN_IF_ERROR(unescape_one(lexer, string, &from, end, out));
  }
  return NULL;
}

// ---- tokens ----

// A no-break space has two bytes, a byte order mark three.
static const char *advice_for(const text_lexer *lexer)
{
  const size_t left = (size_t)(lexer->end - lexer->position);
  const unsigned char *at = (const unsigned char *)lexer->position;
  if (text_begins_typographic_quote(lexer->position, left))
    return " It begins a typographic quote: write \" in its place.";
  if (left >= 2 && at[0] == 0xC2 && at[1] == 0xA0)
    return " It begins a no-break space: write a plain one in its place.";
  if (left >= 3 && at[0] == 0xEF && at[1] == 0xBB && at[2] == 0xBF)
    return " It begins a byte order mark: save the file as UTF-8 without one.";
  return "";
}

static error *lex_symbol(text_lexer *lexer)
{
  unsigned char c = (unsigned char)*lexer->position;
  if (c >= 0x80) {
    char text[128];
    snprintf(text, sizeof(text), "Interpreting non ascii codepoint %u.%s", c, advice_for(lexer));
    return error_here(lexer, text);
  }
  if (c < 0x20 || c == 0x7F)
    return error_here(lexer, "Invalid control characters encountered in text.");
  advance(lexer);
  return NULL;
}

static error *lex(text_lexer *lexer, token_kind *kind)
{
  if (lexer->position == lexer->end) {
    *kind = TOKEN_END;
    return NULL;
  }
  char c = *lexer->position;
  bool point_number = c == '.' && lexer->end - lexer->position > 1 && is_digit(lexer->position[1]);
  if (is_digit(c) || point_number)
    return lex_number(lexer, kind);
  if (is_letter(c)) {
    *kind = TOKEN_IDENTIFIER;
    while (is_letter(peek(lexer)) || is_digit(peek(lexer)))
      advance(lexer);
    return NULL;
  }
  if (c == '"' || c == '\'') {
    *kind = TOKEN_STRING;
    return lex_string(lexer);
  }
  *kind = TOKEN_SYMBOL;
  return lex_symbol(lexer);
}

static token here(const text_lexer *lexer)
{
  const token *before = &lexer->current;
  return (token){.line = lexer->line,
                 .column = lexer->column,
                 .indent = lexer->line == before->line ? before->indent : lexer->column};
}

error *text_lexer_next(text_lexer *lexer)
{
  skip_space_and_comments(lexer);
  token next = here(lexer);
  const char *start = lexer->position;
  RETURN_IF_ERROR(lex(lexer, &next.kind));
  next.text = (slice){start, (size_t)(lexer->position - start)};
  lexer->current = next;
  return NULL;
}

void text_lexer_skip_bad(text_lexer *lexer)
{
  token bad = here(lexer);
  bad.kind = TOKEN_BAD;
  const char *start = lexer->position;
  if (lexer->position < lexer->end && *lexer->position != '\n')
    advance(lexer);
  while (lexer->position < lexer->end && !is_space(*lexer->position) &&
         strchr("{}[]<>,;:#\"'", *lexer->position) == NULL)
    advance(lexer);
  bad.text = (slice){start, (size_t)(lexer->position - start)};
  lexer->current = bad;
}
