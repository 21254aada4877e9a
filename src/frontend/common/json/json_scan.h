// SPDX-License-Identifier: Apache-2.0
// A cursor over JSON text (RFC 8259, and the number words of base/number.h): no tree, values are
// visited where they stand. Errors are INVALID_ARG and name the path, what was expected and what
// stands there. Pure functions; behind the text there must be readable memory that ends in 16
// zeroes, as infer_request_json.h says.
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

// What whoever has a JSON text read lends for long arrays of numbers in it.
typedef struct json_host {
  const parallel *parallel; // reads parts of them at once; NULL: nobody helps
  // Called with text, inside of an array, that is read and will not be looked at again; it may
  // begin with what was told before. NULL: nobody wants to know.
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

// Where a value stands: a chain on the stack, from the inside out, printed as
// "inputs[0].data[17]".
typedef struct json_path {
  const struct json_path *outer; // NULL: the whole text
  const char *key;               // NULL: an element of an array
  size_t key_size;
  size_t index;
  const char *known_as; // how Triton calls it where that is not the key, else NULL
} json_path;

// A cursor at the beginning of a text; a byte order mark is passed over, as in Triton.
json_cursor json_begin(slice text, const json_host *host, arena *a);

// The next character that is no blank, not taken; '\0' at the end.
char json_peek(json_cursor *c);

// "failed to parse the request JSON buffer: in '<path>': expected <what>, got <what stands at the
// cursor> at byte <n>": text that is no JSON.
error *json_fail_syntax(const json_cursor *c, const json_path *path, const char *expected);
// The same for a value of another kind, in Triton's words first, which name the member only:
// "Unable to parse 'data': attempt to access JSON <access>: inputs[0].data[17]: expected …", where
// access is as in "non-array as array".
error *json_fail_kind(const json_cursor *c, const json_path *path, const char *access,
                      const char *expected);
// The same where Triton's words are others: "<words>: <path>: expected …".
error *json_fail_kind_as(const json_cursor *c, const json_path *path, const char *words,
                         const char *expected);
// "<words>: <path>: <text>", for what Triton refuses in these words; NULL: "Unable to parse
// '<path>': <text>".
error *json_fail_words(const json_path *path, const char *words, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define json_fail_text(path, ...) json_fail_words(path, NULL, __VA_ARGS__)

// Called with the cursor on a member's value or an element; must take it.
typedef error *json_visit_member(void *context, json_cursor *c, const json_path *path, slice key);
typedef error *json_visit_element(void *context, json_cursor *c, const json_path *path);

error *json_members(json_cursor *c, const json_path *path, json_visit_member *visit, void *context);
error *json_elements(json_cursor *c, const json_path *path, json_visit_element *visit,
                     void *context);

typedef enum json_kind {
  JSON_READ, // what `read` does with it
  JSON_LIST, // an array, what `read` does with each element
  JSON_TEXT, // const char *
  JSON_NAME, // the same, short: names of tensors stand whole in errors
  JSON_BOOL, // bool
  JSON_U64,  // uint64_t
} json_kind;

// A member of an object whose value goes to a place of a C object or to a function.
typedef struct json_member {
  slice name;
  json_visit_element *read; // with the C object as its context
  json_kind kind;
  size_t offset; // of that in the C object
} json_member;

#define JSON_MEMBERS_MAX 8

typedef struct json_schema {
  json_member members[JSON_MEMBERS_MAX]; // those with a name
  json_visit_member *visit_other;        // for all others; NULL: they are passed over
  const char *refusal; // of what is no object, in Triton's words; NULL: those of json_fail_kind
} json_schema;

// Takes an object, in which each of the members may stand once. *seen gets a bit for each that is
// there, in the order of the list.
error *json_object_read(json_cursor *c, const json_path *path, const json_schema *schema,
                        void *target, unsigned *seen);

// Takes a string, which must be UTF-8. `json_text` gives a NUL-terminated copy in the arena and
// refuses \u0000; `json_string_view` gives a view of the text where nothing is escaped, else of the
// arena.
error *json_text(json_cursor *c, const json_path *path, const char **text);
error *json_string_view(json_cursor *c, const json_path *path, slice *text);

// Takes a string of any bytes, as in a tensor, and writes it to `out`, which has room for as many
// bytes as the text has left.
error *json_string_copy(json_cursor *c, const json_path *path, char *out, size_t *size);

error *json_bool(json_cursor *c, const json_path *path, bool *value);
bool json_take_u64(json_cursor *c, uint64_t *value); // false: none stands there
error *json_u64(json_cursor *c, const json_path *path, uint64_t *value);

// Takes any value. Its strings may be of any bytes.
error *json_skip(json_cursor *c, const json_path *path);

// Nothing but blanks may follow, and zeroes: clients send those that end their strings.
error *json_finish(json_cursor *c);

#endif
