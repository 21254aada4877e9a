// SPDX-License-Identifier: Apache-2.0
// A cursor over JSON text (RFC 8259, and the number words of base/number.h): no tree; values are
// visited in place. Errors are INVALID_ARG and name the path, what was expected and what the text
// has. Pure functions; the memory behind the text must be as infer_request_json_read wants it.
#ifndef NEREID_FRONTEND_COMMON_JSON_JSON_SCAN_H
#define NEREID_FRONTEND_COMMON_JSON_JSON_SCAN_H

#include "base/arena.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_MAX_DEPTH 100

// Help from the caller for long arrays of numbers.
typedef struct json_host {
  const parallel *parallel; // reads parts of them at once; NULL: none
  // Called with the part of an array's text, from its begin, that is read and will not be used
  // again. NULL: not called.
  void (*release_text)(void *context, const char *begin, const char *end);
  void *context;
} json_host;

typedef struct json_cursor {
  const char *begin;
  const char *at;
  const char *end;
  arena *arena;
  const json_host *host; // NULL: none
} json_cursor;

// The path of a value: a chain on the stack, from the innermost member out; printed as
// "inputs[0].data[17]".
typedef struct json_path {
  const struct json_path *outer; // NULL: the whole text
  const char *key;               // NULL: an element of an array
  size_t key_size;
  size_t index;
  const char *known_as; // Triton's name for it if that is not the key, else NULL
} json_path;

// A cursor at the beginning of a text; skips a byte order mark, as Triton does.
json_cursor json_begin(slice text, const json_host *host, arena *a);

// Skips blanks and returns the next character without taking it; '\0' at the end.
char json_peek(json_cursor *c);

// For text that is no JSON: "failed to parse the request JSON buffer: in '<path>': expected <what>,
// got <text at the cursor> at byte <n>".
error *json_fail_syntax(const json_cursor *c, const json_path *path, const char *expected);
// For a value of another kind, with Triton's words first, which name the member only: "Unable to
// parse 'data': attempt to access JSON <access>: inputs[0].data[17]: expected …". `access` is for
// example "non-array as array".
error *json_fail_kind(const json_cursor *c, const json_path *path, const char *access,
                      const char *expected);
// The same with other words of Triton's: "<words>: <path>: expected …".
error *json_fail_kind_as(const json_cursor *c, const json_path *path, const char *words,
                         const char *expected);
// "<words>: <path>: <text>", where `words` are Triton's; NULL: "Unable to parse '<path>': <text>".
error *json_fail_words(const json_path *path, const char *words, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define json_fail_text(path, ...) json_fail_words(path, NULL, __VA_ARGS__)

// Called with the cursor at a member's value or an element, which it must take.
typedef error *json_visit_member(void *context, json_cursor *c, const json_path *path, slice key);
typedef error *json_visit_element(void *context, json_cursor *c, const json_path *path);

error *json_members(json_cursor *c, const json_path *path, json_visit_member *visit, void *context);
error *json_elements(json_cursor *c, const json_path *path, json_visit_element *visit,
                     void *context);

typedef enum json_kind {
  JSON_READ, // any value, taken by `read`
  JSON_LIST, // an array; `read` takes each element
  JSON_TEXT, // const char *
  JSON_NAME, // as JSON_TEXT, but short: errors quote names of tensors whole
  JSON_BOOL, // bool
  JSON_U64,  // uint64_t
} json_kind;

// A member whose value goes to a field of a C object or to a function.
typedef struct json_member {
  slice name;
  json_visit_element *read; // its context is the C object
  json_kind kind;
  size_t offset; // of the field in the C object
} json_member;

#define JSON_MEMBERS_MAX 8

typedef struct json_schema {
  json_member members[JSON_MEMBERS_MAX]; // the first without a name ends the list
  json_visit_member *visit_other;        // for other members; NULL: they are ignored
  const char *refusal; // Triton's words when it is no object; NULL: those of json_fail_kind
} json_schema;

// Takes an object. Each listed member may stand once; *seen gets a bit for each, in the order of
// the list.
error *json_object_read(json_cursor *c, const json_path *path, const json_schema *schema,
                        void *target, unsigned *seen);

// Take a string, which must be UTF-8. `json_text` gives a NUL-terminated copy in the arena and
// refuses \u0000. `json_string_view` gives a view of the text, or of the arena where something is
// escaped.
error *json_text(json_cursor *c, const json_path *path, const char **text);
error *json_string_view(json_cursor *c, const json_path *path, slice *text);

// Takes a string of any bytes, as in a tensor. `out` must have room for as many bytes as the text
// has left.
error *json_string_copy(json_cursor *c, const json_path *path, char *out, size_t *size);

error *json_bool(json_cursor *c, const json_path *path, bool *value);
bool json_take_u64(json_cursor *c, uint64_t *value); // false: there is none
error *json_u64(json_cursor *c, const json_path *path, uint64_t *value);

// Takes any value. Its strings may have any bytes.
error *json_skip(json_cursor *c, const json_path *path);

// Only blanks may follow, and zeroes, because some clients send the NUL of their string.
error *json_finish(json_cursor *c);

#endif
