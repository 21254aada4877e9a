// SPDX-License-Identifier: Apache-2.0
// A JSON text, token by token, as protobuf's lenient reader takes it, which reads what clients send
// to Triton as a configuration: texts in either kind of quotes, with line ends inside and any
// letter behind a backslash; names without quotes; a comma before a closing bracket. Words of other
// languages (True, None, NaN), comments and what follows the value are refused. Private to
// src/config. Nothing is built and nothing recurses; nesting and the number of values are bounded.
// Errors are INVALID_ARG and say line, column, what stands there and what was expected.
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

// Of an object or a list the opening bracket. `text` is a string's content or a number's digits; it
// is there until the next token. A string has no NUL.
typedef struct json_token {
  json_kind kind;
  slice text;
} json_token;

typedef struct json_source {
  slice text;
  size_t at;
  size_t depth;      // of open brackets
  size_t values;     // that have begun
  size_t max_values; // most of these
  buffer string;     // content of the last string
} json_source;

void json_source_init(json_source *s, slice text, size_t max_values); // `text` stays the caller's
void json_source_fini(json_source *s);

// The next value, or its opening bracket.
error *json_source_value(json_source *s, json_token *token);

// Behind an opening bracket (`first`) or a value: does another one follow before `close`? If not,
// the bracket is read too.
error *json_source_more(json_source *s, char close, bool first, bool *more);

// A member's name, in place of what `name` had, and its colon. It ends with a NUL, which counts in
// the size.
error *json_source_name(json_source *s, buffer *name);

// Nothing but blanks is left.
error *json_source_end(json_source *s);

#endif
