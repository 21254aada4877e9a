// SPDX-License-Identifier: Apache-2.0
// Reads protobuf's text format into a message, driven by the message's descriptor. Called from load
// threads. Errors have protobuf's words, since tools look for them.
#include "base/cleanup.h"
#include "base/number.h"
#include "base/text.h"
#include "config/config.h"
#include "config/text_hints.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_DEPTH 100

// Steps over `symbol` if it is next; *found tells whether it was.
static error *take_if(text_reader *reader, char symbol, bool *found)
{
  *found = text_at_symbol(reader, symbol);
  return *found ? text_next(reader) : NULL;
}

static error *expect(text_reader *reader, char symbol)
{
  if (!text_at_symbol(reader, symbol))
    return text_lexer_error(&reader->lexer, text_current(reader),
                            "Expected \"%c\", found \"%.*s\".", symbol,
                            SHOWN(*text_current(reader)));
  return text_next(reader);
}

static error *expected(text_reader *reader, const char *what)
{
  text_hint_expected(reader, what);
  return text_lexer_error(&reader->lexer, text_current(reader), "Expected %s, got: %.*s", what,
                          SHOWN(*text_current(reader)));
}

// ---- numbers ----

// The value of an INTEGER token, decimal, hex or octal; false above `limit`.
static bool integer_value(const token *at, uint64_t limit, uint64_t *value)
{
  slice text = at->text;
  unsigned base = 10;
  size_t i = 0;
  if (text.size > 1 && text.data[0] == '0') {
    base = text.data[1] == 'x' || text.data[1] == 'X' ? 16 : 8;
    i = base == 16 ? 2 : 1;
  }
  uint64_t result = 0;
  for (; i < text.size; i++) {
    char c = text.data[i];
    unsigned digit = (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    if (__builtin_mul_overflow(result, base, &result) ||
        __builtin_add_overflow(result, digit, &result) || result > limit)
      return false;
  }
  *value = result;
  return true;
}

static error *read_unsigned(text_reader *reader, uint64_t limit, uint64_t *value)
{
  if (text_current(reader)->kind != TOKEN_INTEGER)
    return expected(reader, "integer");
  if (!integer_value(text_current(reader), limit, value))
    return text_lexer_error(&reader->lexer, text_current(reader), "Integer out of range (%.*s)",
                            SHOWN(*text_current(reader)));
  return text_next(reader);
}

static error *read_signed(text_reader *reader, int64_t limit, int64_t *value)
{
  bool negative;
  uint64_t magnitude;
  RETURN_IF_ERROR(take_if(reader, '-', &negative));
  RETURN_IF_ERROR(read_unsigned(reader, (uint64_t)limit + (negative ? 1 : 0), &magnitude));
  *value = (int64_t)(negative ? 0 - magnitude : magnitude);
  return NULL;
}

static bool is_word(slice text, const char *word)
{
  return text.size == strlen(word) && strncasecmp(text.data, word, text.size) == 0;
}

// The value of a decimal INTEGER or FLOAT token, which may end in f.
static error *number_value(text_reader *reader, double *value)
{
  slice text = text_current(reader)->text;
  bool hex_or_octal =
      text_current(reader)->kind == TOKEN_INTEGER && text.size > 1 && text.data[0] == '0';
  if (hex_or_octal)
    return text_lexer_error(&reader->lexer, text_current(reader),
                            "Expect a decimal number, got: %.*s", SHOWN(*text_current(reader)));
  AUTO_BUFFER buffer digits = BUFFER_EMPTY; // number_strtod needs an end
  buffer_append_slice(&digits, text);
  buffer_append_char(&digits, '\0');
  if (digits.failed)
    return error_no_memory();
  *value = number_strtod(digits.data, NULL);
  return NULL;
}

static error *read_double(text_reader *reader, double *value)
{
  bool negative;
  RETURN_IF_ERROR(take_if(reader, '-', &negative));
  slice text = text_current(reader)->text;
  if (text_current(reader)->kind == TOKEN_INTEGER || text_current(reader)->kind == TOKEN_FLOAT)
    RETURN_IF_ERROR(number_value(reader, value));
  else if (text_current(reader)->kind == TOKEN_IDENTIFIER &&
           (is_word(text, "inf") || is_word(text, "infinity")))
    *value = INFINITY;
  else if (text_current(reader)->kind == TOKEN_IDENTIFIER && is_word(text, "nan"))
    *value = NAN;
  else
    return expected(reader, "double");
  if (negative)
    *value = -*value;
  return text_next(reader);
}

// ---- words and strings ----

static error *read_bool(text_reader *reader, field_ref field, int64_t *value)
{
  if (text_current(reader)->kind == TOKEN_INTEGER) {
    uint64_t number;
    RETURN_IF_ERROR(read_unsigned(reader, 1, &number));
    *value = (int64_t)number;
    return NULL;
  }
  if (text_current(reader)->kind != TOKEN_IDENTIFIER)
    return expected(reader, "identifier");
  static const struct {
    const char *word;
    int64_t value;
  } words[] = {{"true", 1}, {"True", 1}, {"t", 1}, {"false", 0}, {"False", 0}, {"f", 0}};
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    if (slice_equal_text(text_current(reader)->text, words[i].word)) {
      *value = words[i].value;
      return text_next(reader);
    }
  }
  text_set_fix(reader, "write true or false");
  return text_lexer_error(&reader->lexer, text_current(reader),
                          "Invalid value for boolean field \"%s\". Value: \"%.*s\".", field->name,
                          SHOWN(*text_current(reader)));
}

// The end of a message about an unknown name: the name most like it. A reader that continues puts
// that into the fix.
static const char *did_you_mean(text_reader *reader, const char *similar, char text[TEXT_MAX_SHOWN])
{
  text[0] = '\0';
  if (similar == NULL)
    return text;
  if (text_goes_on(reader))
    text_set_fix(reader, "did you mean '%s'?", similar);
  else
    snprintf(text, TEXT_MAX_SHOWN, " Did you mean '%s'?", similar);
  return text;
}

// From the token on up to a space or a sign of the format: np.float32 and tensor(float) are several
// tokens.
static slice whole_word(const text_reader *reader, const token *at)
{
  const char *end = at->text.data + at->text.size;
  while (end < reader->lexer.end && strchr(" \t\r\n,;{}[]<>#:\"'", *end) == NULL)
    end++;
  return (slice){at->text.data, (size_t)(end - at->text.data)};
}

static error *unknown_enum(text_reader *reader, field_ref field, const token *at)
{
  const char *similar = text_is_told(reader) ? reflection_suggest_value(reflection_enum_type(field),
                                                                        whole_word(reader, at))
                                             : NULL;
  char end[TEXT_MAX_SHOWN];
  return text_lexer_error(&reader->lexer, at,
                          "Unknown enumeration value of \"%.*s\" for field \"%s\".%s", SHOWN(*at),
                          field->name, did_you_mean(reader, similar, end));
}

static error *no_enum(text_reader *reader, const ProtobufCEnumDescriptor *type)
{
  const char *meant = text_hint_value(reader, type);
  if (meant == NULL || text_goes_on(reader))
    return expected(reader, "integer or identifier");
  return text_lexer_error(&reader->lexer, text_current(reader),
                          "Expected integer or identifier, got: %.*s. Write %s, without quotes.",
                          SHOWN(*text_current(reader)), meant);
}

static error *read_enum(text_reader *reader, field_ref field, int64_t *value)
{
  const ProtobufCEnumDescriptor *type = reflection_enum_type(field);
  const token at = *text_current(reader);
  if (at.kind == TOKEN_INTEGER || text_at_symbol(reader, '-')) {
    RETURN_IF_ERROR(read_signed(reader, INT32_MAX, value));
    if (protobuf_c_enum_descriptor_get_value(type, (int)*value) == NULL)
      return text_lexer_error(&reader->lexer, &at,
                              "Unknown enumeration value of \"%lld\" for field \"%s\".",
                              (long long)*value, field->name);
    return NULL;
  }
  if (at.kind != TOKEN_IDENTIFIER)
    return no_enum(reader, type);
  for (unsigned i = 0; i < type->n_values; i++) {
    if (slice_equal_text(at.text, type->values[i].name)) {
      *value = type->values[i].value;
      return text_next(reader);
    }
  }
  return unknown_enum(reader, field, &at);
}

// Joins adjacent strings.
static error *read_string(text_reader *reader, char **text)
{
  const token first = *text_current(reader);
  if (first.kind != TOKEN_STRING)
    return expected(reader, "string");
  AUTO_BUFFER buffer content = BUFFER_EMPTY;
  while (text_current(reader)->kind == TOKEN_STRING) {
    RETURN_IF_ERROR(text_lexer_unescape(&reader->lexer, text_current(reader), &content));
    RETURN_IF_ERROR(text_next(reader));
  }
  if (content.size > 0 && memchr(content.data, '\0', content.size) != NULL)
    return text_lexer_error(&reader->lexer, &first,
                            "String holds a NUL character, which no configuration value may.");
  buffer_append(&content, "", 0);
  *text = buffer_take_text(&content);
  return *text != NULL ? NULL : error_no_memory();
}

static error *read_scalar(text_reader *reader, field_ref field, scalar *value)
{
  switch (field->type) {
  case PROTOBUF_C_TYPE_INT64:
    return read_signed(reader, INT64_MAX, &value->integer);
  case PROTOBUF_C_TYPE_UINT64:
    return read_unsigned(reader, UINT64_MAX, &value->unsigned_integer);
  case PROTOBUF_C_TYPE_UINT32:
    return read_unsigned(reader, UINT32_MAX, &value->unsigned_integer);
  case PROTOBUF_C_TYPE_DOUBLE:
  case PROTOBUF_C_TYPE_FLOAT:
    return read_double(reader, &value->real);
  case PROTOBUF_C_TYPE_BOOL:
    return read_bool(reader, field, &value->integer);
  case PROTOBUF_C_TYPE_ENUM:
    return read_enum(reader, field, &value->integer);
  case PROTOBUF_C_TYPE_STRING:
    return read_string(reader, &value->text);
  default:
    return read_signed(reader, INT32_MAX, &value->integer);
  }
}

// ---- mistakes ----

// Notes the error and returns NULL if the reader continues after mistakes.
static error *note(text_reader *reader, error *e_owned)
{
  if (e_owned == NULL || !text_goes_on(reader))
    return e_owned;
  const bool noted = text_note(reader, e_owned);
  if (!noted && !reader->path.failed)
    return e_owned;
  error_free(e_owned);
  return noted ? NULL : error_no_memory();
}

// Reads a field's ':'. If it is missing, notes that and continues with the value.
static error *expect_colon(text_reader *reader)
{
  const bool missing = !text_at_symbol(reader, ':');
  if (missing)
    text_set_fix(reader, "write ':' before the value");
  RETURN_IF_ERROR(note(reader, expect(reader, ':')));
  return missing && text_at_symbol(reader, '=') ? text_next(reader) : NULL;
}

// Whether a message's fields follow although its bracket is missing.
static bool at_field_of(const text_reader *reader, const ProtobufCMessageDescriptor *descriptor)
{
  return text_goes_on(reader) && text_at_field(reader) &&
         reflection_field(descriptor, text_current(reader)->text) != NULL;
}

// ---- fields ----

static error *read_field_or_skip(text_reader *reader, ProtobufCMessage *message);

static bool at_end_of_message(const text_reader *reader)
{
  if (text_goes_on(reader) && (text_current(reader)->kind == TOKEN_END || reader->closing != NULL))
    return true;
  if (text_ends_list(reader))
    return true;
  return text_at_symbol(reader, '>') || text_at_symbol(reader, '}');
}

// Reads the fields of a message and its closing bracket.
static error *read_fields(text_reader *reader, ProtobufCMessage *message, bool angle,
                          const token *name)
{
  const text_scope scope = {reader->scope, message->descriptor, *name};
  reader->scope = &scope;
  reader->depth++;
  error *e = NULL;
  while (e == NULL && !at_end_of_message(reader))
    e = read_field_or_skip(reader, message);
  const bool open = text_current(reader)->kind == TOKEN_END || text_ends_list(reader);
  const char *where = text_ends_list(reader) ? " before it" : "";
  reader->depth--;
  reader->scope = scope.outer;
  if (e != NULL)
    return e;
  if (reader->closing != NULL) {
    if (reader->closing == scope.outer)
      reader->closing = NULL;
    return NULL;
  }
  if (open) {
    text_set_fix_close(reader, name, where);
    return note(reader, expected(reader, "identifier"));
  }
  const bool closes = text_at_symbol(reader, '>') || text_at_symbol(reader, '}');
  const bool right = text_at_symbol(reader, angle ? '>' : '}');
  RETURN_IF_ERROR(note(reader, expect(reader, angle ? '>' : '}')));
  return closes && !right ? text_next(reader) : NULL;
}

// { … } or < … >
static error *read_message_value(text_reader *reader, ProtobufCMessage *parent, field_ref field,
                                 const token *name)
{
  if (reader->depth == MAX_DEPTH)
    return text_lexer_error(
        &reader->lexer, text_current(reader),
        "Message is too deep, the parser exceeded the configured recursion limit of %d.",
        MAX_DEPTH);
  bool angle;
  RETURN_IF_ERROR(take_if(reader, '<', &angle));
  if (!angle && !text_at_symbol(reader, '{'))
    text_hint_message(reader, field);
  if (!angle && at_field_of(reader, field->descriptor))
    RETURN_IF_ERROR(note(reader, expect(reader, '{')));
  else if (!angle)
    RETURN_IF_ERROR(expect(reader, '{'));
  ProtobufCMessage *child = reflection_put_message(parent, field);
  if (child == NULL)
    return error_no_memory();
  return read_fields(reader, child, angle, name);
}

// `name` is the token that stands for a message: the field's name or, in a list, the bracket.
static error *read_value(text_reader *reader, ProtobufCMessage *message, field_ref field,
                         const token *name)
{
  const bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
  const size_t path =
      repeated ? text_path_add_index(reader, reflection_count(message, field)) : reader->path.size;
  const token first = *text_current(reader);
  error *e = NULL;
  if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
    const size_t places = text_place(reader, name);
    e = read_message_value(reader, message, field, name);
    if (e == NULL && reflection_is_map(field))
      text_name_entry(reader, places, message, field);
  } else {
    scalar value = {0};
    e = read_scalar(reader, field, &value);
    if (e == NULL && !reflection_put(message, field, value))
      e = error_no_memory();
    if (e == NULL)
      text_place(reader, &first);
  }
  if (e == NULL)
    text_path_cut(reader, path);
  return e;
}

// Notes the mistake in a list's element and steps over the element.
static error *skip_element(text_reader *reader, error *e_owned)
{
  RETURN_IF_ERROR(note(reader, e_owned));
  return text_at_field(reader) ? NULL : text_skip_value(reader);
}

// After a list's element. If a comma is missing and the reader continues, the next element follows,
// or the list is over (*done).
static error *next_element(text_reader *reader, bool *missed, bool *done)
{
  RETURN_IF_ERROR(take_if(reader, ']', done));
  if (*done)
    return NULL;
  const bool comma = text_at_symbol(reader, ',');
  if (!comma)
    text_set_fix(reader, "separate elements by ',' and close the list by ']'");
  if (comma || !text_goes_on(reader) || !*missed) // a list without commas is one mistake
    RETURN_IF_ERROR(note(reader, expect(reader, ',')));
  *missed = *missed || !comma;
  *done = !comma && (text_at_field(reader) || text_at_symbol(reader, '}') ||
                     text_at_symbol(reader, '>') || text_current(reader)->kind == TOKEN_END);
  return NULL;
}

// After the [ of field: [a, b]
static error *read_list(text_reader *reader, ProtobufCMessage *message, field_ref field)
{
  bool done;
  bool missed = false; // a comma
  const size_t path = reader->path.size;
  const int depth = reader->depth;
  RETURN_IF_ERROR(take_if(reader, ']', &done));
  while (!done) {
    const token first = *text_current(reader);
    error *e = read_value(reader, message, field, &first);
    if (e != NULL) {
      RETURN_IF_ERROR(skip_element(reader, e));
      reader->depth = depth;
      text_path_cut(reader, path);
    }
    if (reader->closing != NULL)
      return NULL;
    RETURN_IF_ERROR(next_element(reader, &missed, &done));
  }
  return NULL;
}

// If the reader continues and the value fits the field with the nearest name, *meant becomes that
// field, so that the value is checked too.
static error *unknown_field(text_reader *reader, const ProtobufCMessageDescriptor *descriptor,
                            const token *at, field_ref *meant)
{
  const char *similar =
      text_is_told(reader) ? reflection_suggest_field(descriptor, at->text) : NULL;
  char end[TEXT_MAX_SHOWN] = "";
  if (!text_closes_outer(reader, at)) {
    did_you_mean(reader, similar, end);
    if (similar == NULL)
      text_hint_level(reader, at);
    else if (text_goes_on(reader))
      *meant = reflection_field(descriptor, slice_of(similar));
    if (*meant != NULL && !text_fits(reader, *meant))
      *meant = NULL;
  }
  return text_lexer_error(&reader->lexer, at, "Message type \"%s\" has no field named \"%.*s\".%s",
                          descriptor->name, SHOWN(*at), end);
}

// A singular field may occur once, a oneof with one member. As in protobuf, a scalar given as zero
// does not count.
static error *check_first(text_reader *reader, const ProtobufCMessage *message, field_ref field,
                          const token *at)
{
  if (field->label == PROTOBUF_C_LABEL_REPEATED)
    return NULL;
  text_set_fix(reader, "remove one of them");
  if (reflection_has(message, field))
    return text_lexer_error(&reader->lexer, at,
                            "Non-repeated field \"%s\" is specified multiple times.", field->name);
  field_ref other = reflection_is_oneof(field) ? reflection_oneof_member(message, field) : NULL;
  if (other != NULL)
    return text_lexer_error(
        &reader->lexer, at,
        "Field \"%s\" is specified along with field \"%s\", another member of oneof \"%s\".",
        field->name, other->name, reflection_oneof_name(message));
  reader->fix[0] = '\0';
  return NULL;
}

// After the comma of "dims: 1, 2", a list without brackets.
static error *skip_bare_list(text_reader *reader, field_ref field)
{
  const token *at = text_current(reader);
  if (!text_goes_on(reader) || (at->kind != TOKEN_INTEGER && at->kind != TOKEN_FLOAT &&
                                at->kind != TOKEN_STRING && !text_at_symbol(reader, '-')))
    return NULL;
  text_set_fix(reader, "put the list into brackets: '%s: [ … ]'", field->name);
  RETURN_IF_ERROR(note(reader, expected(reader, "identifier")));
  bool more = true;
  while (more) {
    RETURN_IF_ERROR(text_skip_value(reader));
    RETURN_IF_ERROR(take_if(reader, ',', &more));
    more = more && !text_at_field(reader);
  }
  return NULL;
}

static error *read_field(text_reader *reader, ProtobufCMessage *message)
{
  const token name = *text_current(reader);
  if (name.kind != TOKEN_IDENTIFIER) {
    text_hint_name(reader);
    return expected(reader, "identifier");
  }
  field_ref field = reflection_field(message->descriptor, name.text);
  if (field == NULL) {
    error *e = unknown_field(reader, message->descriptor, &name, &field);
    if (field == NULL)
      return e;
    RETURN_IF_ERROR(note(reader, e));
  }
  text_path_add(reader, field->name);
  RETURN_IF_ERROR(check_first(reader, message, field, &name));
  RETURN_IF_ERROR(text_next(reader));

  bool found;
  if (field->type == PROTOBUF_C_TYPE_MESSAGE)
    RETURN_IF_ERROR(take_if(reader, ':', &found));
  else
    RETURN_IF_ERROR(expect_colon(reader));
  bool list = false;
  if (field->label == PROTOBUF_C_LABEL_REPEATED) {
    if (reflection_count(message, field) == 0)
      text_place(reader, &name);
    RETURN_IF_ERROR(take_if(reader, '[', &list));
  }
  RETURN_IF_ERROR(list ? read_list(reader, message, field)
                       : read_value(reader, message, field, &name));

  RETURN_IF_ERROR(take_if(reader, ';', &found));
  if (found)
    return NULL;
  RETURN_IF_ERROR(take_if(reader, ',', &found));
  const bool bare = found && !list && field->label == PROTOBUF_C_LABEL_REPEATED;
  return bare ? skip_bare_list(reader, field) : NULL;
}

static error *read_field_or_skip(text_reader *reader, ProtobufCMessage *message)
{
  const token start = *text_current(reader);
  const size_t path = reader->path.size;
  const int depth = reader->depth;
  error *e = read_field(reader, message);
  if (e != NULL) {
    RETURN_IF_ERROR(note(reader, e));
    reader->depth = depth;
    if (reader->closing == NULL)
      RETURN_IF_ERROR(text_skip_field(reader, &start));
  }
  text_path_cut(reader, path);
  return NULL;
}

// ---- the whole ----

static error *read_all(text_reader *reader, Inference__ModelConfig **config)
{
  AUTO_CONFIG Inference__ModelConfig *result = config_new();
  if (result == NULL)
    return error_no_memory();
  const text_scope whole = {NULL, result->base.descriptor, {0}};
  reader->scope = &whole;
  RETURN_IF_ERROR(text_next(reader));
  while (text_current(reader)->kind != TOKEN_END) {
    RETURN_IF_ERROR(read_field_or_skip(reader, &result->base));
    assert(reader->closing == NULL);
  }
  if (!reflection_finish_maps(&result->base))
    return error_no_memory();
  *config = result;
  result = NULL;
  return NULL;
}

error *config_read_text(slice text, const char *file_name, Inference__ModelConfig **config)
{
  text_reader reader = {0};
  text_lexer_init(&reader.lexer, text, file_name);
  return read_all(&reader, config);
}

static void read_places(slice text, source_map *map)
{
  Inference__ModelConfig *config = NULL;
  text_reader reader = {.map = map};
  text_lexer_init(&reader.lexer, text, NULL);
  error_free(read_all(&reader, &config)); // the text was read before without errors
  config_free(config);
  buffer_fini(&reader.path);
  source_map_finish(map);
}

error *config_read_text_places(slice text, const char *file_name, source_map *map,
                               Inference__ModelConfig **config)
{
  RETURN_IF_ERROR(config_read_text(text, file_name, config));
  map->text = text_copy(text);
  map->read = read_places;
  return NULL;
}

error *config_read_text_all(slice text, source_map *map, diagnostics *found,
                            Inference__ModelConfig **config)
{
  text_reader reader = {.map = map, .found = found};
  text_lexer_init(&reader.lexer, text, NULL);
  error *e = read_all(&reader, config);
  buffer_fini(&reader.path);
  source_map_finish(map);
  return e != NULL || !(map->failed || found->failed) ? e : error_no_memory();
}
