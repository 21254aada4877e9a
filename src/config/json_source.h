// SPDX-License-Identifier: Apache-2.0
// Reads a JSON text token by token, as leniently as protobuf's reader, since clients send such
// configurations to Triton: strings in either kind of quotes, with line ends inside and any letter
// after a backslash; names without quotes; a comma before a closing bracket. Words of other
// languages (True, None, NaN), comments and text after the value are refused. Private to
// src/config. No allocation but the string buffer, no recursion; nesting and the number of values
// are bounded. Errors are INVALID_ARG and give line, column, the text found and the text expected.
#ifndef NEREID_CONFIG_JSON_SOURCE_H
#define NEREID_CONFIG_JSON_SOURCE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum json_kind {
  JSON_KIND_OBJECT,
  JSON_KIND_LIST,
  JSON_KIND_STRING,
  JSON_KIND_NUMBER,
  JSON_KIND_TRUE,
  JSON_KIND_FALSE,
  JSON_KIND_NULL,
} json_kind;

// For an object or a list: its opening bracket. `text` is a string's content or a number's digits,
// valid until the next token. A string has no NUL.
typedef struct json_token {
  json_kind kind;
  slice text;
} json_token;

typedef struct json_source {
  slice text;
  size_t at;
  size_t depth;      // of open brackets
  size_t values;     // that have begun
  size_t max_values; // limit of these
  buffer string;     // content of the last string
} json_source;

void json_source_init(json_source *s, slice text, size_t max_values); // `text` stays the caller's
void json_source_fini(json_source *s);

// The next value, or its opening bracket.
error *json_source_value(json_source *s, json_token *token);

// After an opening bracket (`first`) or a value: *more tells whether another value follows before
// `close`. If not, reads the bracket too.
error *json_source_more(json_source *s, char close, bool first, bool *more);

// Reads a member's name into `name`, and its colon. The name ends with a NUL, which counts in the
// size.
error *json_source_name(json_source *s, buffer *name);

// Checks that only blanks follow.
error *json_source_end(json_source *s);

#endif
