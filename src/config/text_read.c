// Reads protobuf's text format into a message, driven by the message's descriptor. Called from load
// threads. What is refused is refused in protobuf's words, since tools look for them.
#include "base/cleanup.h"
#include "base/number.h"
#include "config/config.h"
#include "config/reflection.h"
#include "config/text_lexer.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

enum {
  MAX_DEPTH = 100,
  MAX_SHOWN = 100, // bytes of a token that a message repeats
};

typedef struct text_reader {
  text_lexer lexer;
  int depth; // of messages being read
} text_reader;

// printf arguments for a token with %.*s
#define SHOWN(token)                                                                               \
  (int)((token).text.size > MAX_SHOWN ? MAX_SHOWN : (token).text.size), (token).text.data

static const token *current(const text_reader *reader)
{
  return &reader->lexer.current;
}

static bool at_symbol(const text_reader *reader, char symbol)
{
  return current(reader)->kind == TOKEN_SYMBOL && current(reader)->text.data[0] == symbol;
}

// Steps over `symbol` if it is next; *found says whether.
static error *take_if(text_reader *reader, char symbol, bool *found)
{
  *found = at_symbol(reader, symbol);
  return *found ? text_lexer_next(&reader->lexer) : NULL;
}

static error *expect(text_reader *reader, char symbol)
{
  if (!at_symbol(reader, symbol))
    return text_lexer_error(&reader->lexer, current(reader), "Expected \"%c\", found \"%.*s\".",
                            symbol, SHOWN(*current(reader)));
  return text_lexer_next(&reader->lexer);
}

static error *expected(const text_reader *reader, const char *what)
{
  return text_lexer_error(&reader->lexer, current(reader), "Expected %s, got: %.*s", what,
                          SHOWN(*current(reader)));
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
  if (current(reader)->kind != TOKEN_INTEGER)
    return expected(reader, "integer");
  if (!integer_value(current(reader), limit, value))
    return text_lexer_error(&reader->lexer, current(reader), "Integer out of range (%.*s)",
                            SHOWN(*current(reader)));
  return text_lexer_next(&reader->lexer);
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

// The value of an INTEGER or FLOAT token, which is decimal and may end in f.
static error *number_value(text_reader *reader, double *value)
{
  slice text = current(reader)->text;
  bool hex_or_octal =
      current(reader)->kind == TOKEN_INTEGER && text.size > 1 && text.data[0] == '0';
  if (hex_or_octal)
    return text_lexer_error(&reader->lexer, current(reader), "Expect a decimal number, got: %.*s",
                            SHOWN(*current(reader)));
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
  slice text = current(reader)->text;
  if (current(reader)->kind == TOKEN_INTEGER || current(reader)->kind == TOKEN_FLOAT)
    RETURN_IF_ERROR(number_value(reader, value));
  else if (current(reader)->kind == TOKEN_IDENTIFIER &&
           (is_word(text, "inf") || is_word(text, "infinity")))
    *value = INFINITY;
  else if (current(reader)->kind == TOKEN_IDENTIFIER && is_word(text, "nan"))
    *value = NAN;
  else
    return expected(reader, "double");
  if (negative)
    *value = -*value;
  return text_lexer_next(&reader->lexer);
}

// ---- words and strings ----

static error *read_bool(text_reader *reader, field_ref field, int64_t *value)
{
  if (current(reader)->kind == TOKEN_INTEGER) {
    uint64_t number;
    RETURN_IF_ERROR(read_unsigned(reader, 1, &number));
    *value = (int64_t)number;
    return NULL;
  }
  if (current(reader)->kind != TOKEN_IDENTIFIER)
    return expected(reader, "identifier");
  static const struct {
    const char *word;
    int64_t value;
  } words[] = {{"true", 1}, {"True", 1}, {"t", 1}, {"false", 0}, {"False", 0}, {"f", 0}};
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    if (slice_equal_text(current(reader)->text, words[i].word)) {
      *value = words[i].value;
      return text_lexer_next(&reader->lexer);
    }
  }
  return text_lexer_error(&reader->lexer, current(reader),
                          "Invalid value for boolean field \"%s\". Value: \"%.*s\".", field->name,
                          SHOWN(*current(reader)));
}

static error *unknown_enum(const text_reader *reader, field_ref field, const token *at)
{
  const char *similar = reflection_suggest_value(reflection_enum_type(field), at->text);
  return text_lexer_error(&reader->lexer, at,
                          "Unknown enumeration value of \"%.*s\" for field \"%s\".%s%s%s",
                          SHOWN(*at), field->name, similar != NULL ? " Did you mean '" : "",
                          similar != NULL ? similar : "", similar != NULL ? "'?" : "");
}

static error *read_enum(text_reader *reader, field_ref field, int64_t *value)
{
  const ProtobufCEnumDescriptor *type = reflection_enum_type(field);
  const token at = *current(reader);
  if (at.kind == TOKEN_INTEGER || at_symbol(reader, '-')) {
    RETURN_IF_ERROR(read_signed(reader, INT32_MAX, value));
    if (protobuf_c_enum_descriptor_get_value(type, (int)*value) == NULL)
      return text_lexer_error(&reader->lexer, &at,
                              "Unknown enumeration value of \"%lld\" for field \"%s\".",
                              (long long)*value, field->name);
    return NULL;
  }
  if (at.kind != TOKEN_IDENTIFIER)
    return expected(reader, "integer or identifier");
  for (unsigned i = 0; i < type->n_values; i++) {
    if (slice_equal_text(at.text, type->values[i].name)) {
      *value = type->values[i].value;
      return text_lexer_next(&reader->lexer);
    }
  }
  return unknown_enum(reader, field, &at);
}

// Adjacent strings are one.
static error *read_string(text_reader *reader, char **text)
{
  const token first = *current(reader);
  if (first.kind != TOKEN_STRING)
    return expected(reader, "string");
  AUTO_BUFFER buffer content = BUFFER_EMPTY;
  while (current(reader)->kind == TOKEN_STRING) {
    RETURN_IF_ERROR(text_lexer_unescape(&reader->lexer, current(reader), &content));
    RETURN_IF_ERROR(text_lexer_next(&reader->lexer));
  }
  if (content.size > 0 && memchr(content.data, '\0', content.size) != NULL)
    return text_lexer_error(&reader->lexer, &first,
                            "String holds a NUL character, which no configuration value may.");
  buffer_append(&content, "", 0);
  *text = buffer_take_text(&content);
  return *text != NULL ? NULL : error_no_memory();
}

// ---- fields ----

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

static error *read_field(text_reader *reader, ProtobufCMessage *message);

// { … } or < … >
static error *read_message_value(text_reader *reader, ProtobufCMessage *parent, field_ref field)
{
  if (reader->depth == MAX_DEPTH)
    return text_lexer_error(
        &reader->lexer, current(reader),
        "Message is too deep, the parser exceeded the configured recursion limit of %d.",
        MAX_DEPTH);
  bool angle;
  RETURN_IF_ERROR(take_if(reader, '<', &angle));
  if (!angle)
    RETURN_IF_ERROR(expect(reader, '{'));
  ProtobufCMessage *child = reflection_put_message(parent, field);
  if (child == NULL)
    return error_no_memory();
  reader->depth++;
  while (!at_symbol(reader, '>') && !at_symbol(reader, '}'))
    RETURN_IF_ERROR(read_field(reader, child));
  reader->depth--;
  return expect(reader, angle ? '>' : '}');
}

static error *read_value(text_reader *reader, ProtobufCMessage *message, field_ref field)
{
  if (field->type == PROTOBUF_C_TYPE_MESSAGE)
    return read_message_value(reader, message, field);
  scalar value = {0};
  RETURN_IF_ERROR(read_scalar(reader, field, &value));
  return reflection_put(message, field, value) ? NULL : error_no_memory();
}

// Behind the [ of field: [a, b]
static error *read_list(text_reader *reader, ProtobufCMessage *message, field_ref field)
{
  bool done;
  RETURN_IF_ERROR(take_if(reader, ']', &done));
  while (!done) {
    RETURN_IF_ERROR(read_value(reader, message, field));
    RETURN_IF_ERROR(take_if(reader, ']', &done));
    if (!done)
      RETURN_IF_ERROR(expect(reader, ','));
  }
  return NULL;
}

static error *unknown_field(const text_reader *reader, const ProtobufCMessageDescriptor *descriptor,
                            const token *at)
{
  const char *similar = reflection_suggest_field(descriptor, at->text);
  return text_lexer_error(&reader->lexer, at,
                          "Message type \"%s\" has no field named \"%.*s\".%s%s%s",
                          descriptor->name, SHOWN(*at), similar != NULL ? " Did you mean '" : "",
                          similar != NULL ? similar : "", similar != NULL ? "'?" : "");
}

// A singular field may be there once, of a oneof one member. As in protobuf, a scalar that was
// given as zero does not count.
static error *check_first(const text_reader *reader, const ProtobufCMessage *message,
                          field_ref field, const token *at)
{
  if (field->label == PROTOBUF_C_LABEL_REPEATED)
    return NULL;
  if (reflection_has(message, field))
    return text_lexer_error(&reader->lexer, at,
                            "Non-repeated field \"%s\" is specified multiple times.", field->name);
  field_ref other = reflection_is_oneof(field) ? reflection_oneof_member(message, field) : NULL;
  if (other != NULL)
    return text_lexer_error(
        &reader->lexer, at,
        "Field \"%s\" is specified along with field \"%s\", another member of oneof \"%s\".",
        field->name, other->name, reflection_oneof_name(message));
  return NULL;
}

static error *read_field(text_reader *reader, ProtobufCMessage *message)
{
  const token name = *current(reader);
  if (name.kind != TOKEN_IDENTIFIER)
    return expected(reader, "identifier");
  field_ref field = reflection_field(message->descriptor, name.text);
  if (field == NULL)
    return unknown_field(reader, message->descriptor, &name);
  RETURN_IF_ERROR(check_first(reader, message, field, &name));
  RETURN_IF_ERROR(text_lexer_next(&reader->lexer));

  bool found;
  if (field->type == PROTOBUF_C_TYPE_MESSAGE)
    RETURN_IF_ERROR(take_if(reader, ':', &found));
  else
    RETURN_IF_ERROR(expect(reader, ':'));
  bool list = false;
  if (field->label == PROTOBUF_C_LABEL_REPEATED)
    RETURN_IF_ERROR(take_if(reader, '[', &list));
  RETURN_IF_ERROR(list ? read_list(reader, message, field) : read_value(reader, message, field));

  RETURN_IF_ERROR(take_if(reader, ';', &found));
  return found ? NULL : take_if(reader, ',', &found);
}

error *config_read_text(slice text, const char *file_name, Inference__ModelConfig **config)
{
  AUTO_CONFIG Inference__ModelConfig *result = config_new();
  if (result == NULL)
    return error_no_memory();
  text_reader reader = {0};
  text_lexer_init(&reader.lexer, text, file_name);
  RETURN_IF_ERROR(text_lexer_next(&reader.lexer));
  while (current(&reader)->kind != TOKEN_END)
    RETURN_IF_ERROR(read_field(&reader, &result->base));
  if (!reflection_finish_maps(&result->base))
    return error_no_memory();
  *config = result;
  result = NULL;
  return NULL;
}
