// SPDX-License-Identifier: Apache-2.0
// Tokens of protobuf's text format. Private to src/config; used by text_read.c on its caller's
// thread.
#ifndef NEREID_CONFIG_TEXT_LEXER_H
#define NEREID_CONFIG_TEXT_LEXER_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>

typedef enum token_kind {
  TOKEN_END,        // of the text
  TOKEN_IDENTIFIER, // letter or _, then letters, digits, _
  TOKEN_INTEGER,    // 12, 0x1f, 017: no sign
  TOKEN_FLOAT,      // 1.5, .5, 1e3, 2f: no sign
  TOKEN_STRING,     // with its quotes, escapes not yet read
  TOKEN_SYMBOL,     // any other single character
  TOKEN_BAD,        // the text that text_lexer_skip_bad stepped over
} token_kind;

typedef struct token {
  token_kind kind;
  slice text;      // within the text being read
  unsigned line;   // from 1
  unsigned column; // from 1; a tab goes to the next multiple of 8
  unsigned indent; // column of the first token of its line
} token;

typedef struct text_lexer {
  const char *position;
  const char *end;
  const char *file_name; // borrowed, for messages; NULL: messages give no place
  unsigned line;
  unsigned column;
  token current;   // valid after text_lexer_next succeeded
  token failed_at; // of the last error
} text_lexer;

void text_lexer_init(text_lexer *lexer, slice text, const char *file_name);

// Moves to the next token. The error gives the place of text that is no token.
error *text_lexer_next(text_lexer *lexer);

// After text_lexer_next failed: steps over the text that is no token, which becomes `current`.
void text_lexer_skip_bad(text_lexer *lexer);

// An INVALID_ARG error "<file>:<line>:<column>: <text>" at token `at`.
error *text_lexer_error(text_lexer *lexer, const token *at, const char *format, ...)
    __attribute__((format(printf, 3, 4), warn_unused_result));

// Appends the bytes that a TOKEN_STRING stands for.
error *text_lexer_unescape(text_lexer *lexer, const token *string, buffer *out);

#endif
