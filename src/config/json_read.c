// SPDX-License-Identifier: Apache-2.0
// Reads the JSON form of a message, driven by the descriptor. Called from load threads with
// overrides that clients send, and with what backends auto-complete; from front ends with what the
// core answers. Our recursion is as deep as the schema.
#include "base/json_bounds.h"
#include "base/text.h"
#include "config/config.h"
#include "config/message_json.h"
#include "config/reflection.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

enum {
  MAX_VALUES = 65536, // in a configuration
  MAX_SHOWN = 100,    // bytes of a text that a message repeats
};

// Where in the document a value stands: a list from the value up to the root, on the C stack.
typedef struct json_path {
  const struct json_path *parent;
  const char *name; // member; NULL for an element of an array
  size_t index;
} json_path;

static void print_path(buffer *out, const json_path *at)
{
  if (at->parent != NULL)
    print_path(out, at->parent);
  if (at->name == NULL)
    buffer_append_format(out, "[%zu]", at->index);
  else
    buffer_append_format(out, "%s%.*s", at->parent != NULL ? "." : "", MAX_SHOWN, at->name);
}

static error *refuse(const json_path *at, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));

static error *refuse(const json_path *at, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  error *e = error_new_va(ERROR_INVALID_ARG, format, arguments);
  va_end(arguments);
  if (at == NULL)
    return e;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  print_path(&text, at);
  buffer_append_char(&text, '\0');
  return text.failed ? e : error_wrap(e, "%s", text.data);
}

static const char *kind_name(const json_t *value)
{
  static const char *const names[] = {
      [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
      [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
      [JSON_FALSE] = "false",      [JSON_NULL] = "null",
  };
  return names[json_typeof(value)];
}

static error *refuse_kind(const json_path *at, const char *wanted, const json_t *value)
{
  if (json_is_string(value))
    return refuse(at, "expected %s, got \"%.*s\"", wanted, MAX_SHOWN, json_string_value(value));
  return refuse(at, "expected %s, got %s", wanted, kind_name(value));
}

// ---- scalars ----

static slice string_slice(const json_t *value)
{
  return (slice){json_string_value(value), json_string_length(value)};
}

static const char *integer_name(field_ref field)
{
  switch (field->type) {
  case PROTOBUF_C_TYPE_INT64:
    return "a 64-bit integer";
  case PROTOBUF_C_TYPE_UINT64:
    return "an unsigned 64-bit integer";
  case PROTOBUF_C_TYPE_UINT32:
    return "an unsigned 32-bit integer";
  default:
    return "a 32-bit integer";
  }
}

// A number or a string of digits. A number may be written 1e3 or 3.0 as long as it is whole.
static bool signed_value(const json_t *from, int64_t *value)
{
  if (json_is_integer(from)) {
    *value = json_integer_value(from);
    return true;
  }
  if (json_is_string(from))
    return text_to_int64(string_slice(from), value);
  double real = json_real_value(from); // 0 for anything but a real
  if (!json_is_real(from) || real != floor(real) || real < -0x1p63 || real >= 0x1p63)
    return false;
  *value = (int64_t)real;
  return true;
}

static bool unsigned_value(const json_t *from, uint64_t *value)
{
  if (json_is_string(from))
    return text_to_uint64(string_slice(from), value);
  double real = json_real_value(from);
  if (json_is_real(from) && real == floor(real) && real >= 0x1p63 && real < 0x1p64) {
    *value = (uint64_t)real;
    return true;
  }
  int64_t number;
  if (!signed_value(from, &number) || number < 0)
    return false;
  *value = (uint64_t)number;
  return true;
}

static error *read_integer(const json_path *at, field_ref field, const json_t *from, scalar *value)
{
  bool ok;
  if (field->type == PROTOBUF_C_TYPE_UINT64 || field->type == PROTOBUF_C_TYPE_UINT32) {
    ok = unsigned_value(from, &value->unsigned_integer) &&
         (field->type == PROTOBUF_C_TYPE_UINT64 || value->unsigned_integer <= UINT32_MAX);
  } else {
    ok = signed_value(from, &value->integer) &&
         (field->type == PROTOBUF_C_TYPE_INT64 ||
          (value->integer >= INT32_MIN && value->integer <= INT32_MAX));
  }
  if (ok)
    return NULL;
  if (json_is_integer(from))
    return refuse(at, "expected %s, got %" JSON_INTEGER_FORMAT, integer_name(field),
                  json_integer_value(from));
  if (json_is_real(from))
    return refuse(at, "expected %s, got %g", integer_name(field), json_real_value(from));
  return refuse_kind(at, integer_name(field), from);
}

static error *read_real(const json_path *at, const json_t *from, scalar *value)
{
  if (json_is_number(from)) {
    value->real = json_number_value(from);
    return NULL;
  }
  static const struct {
    const char *word;
    double value;
  } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
  for (size_t i = 0; json_is_string(from) && i < sizeof(words) / sizeof(words[0]); i++) {
    if (slice_equal_text(string_slice(from), words[i].word)) {
      value->real = words[i].value;
      return NULL;
    }
  }
  if (json_is_string(from) && text_to_double(string_slice(from), &value->real))
    return NULL;
  return refuse_kind(at, "a number", from);
}

static error *read_bool(const json_path *at, const json_t *from, scalar *value)
{
  bool is_true =
      json_is_true(from) || (json_is_string(from) && slice_equal_text(string_slice(from), "true"));
  bool is_false = json_is_false(from) ||
                  (json_is_string(from) && slice_equal_text(string_slice(from), "false"));
  if (!is_true && !is_false)
    return refuse_kind(at, "true or false", from);
  value->integer = is_true ? 1 : 0;
  return NULL;
}

static error *read_enum(const json_path *at, field_ref field, const json_t *from, scalar *value)
{
  const ProtobufCEnumDescriptor *type = reflection_enum_type(field);
  if (json_is_string(from)) {
    slice name = string_slice(from);
    for (unsigned i = 0; i < type->n_values; i++) {
      if (name.size == strlen(type->values[i].name) &&
          strncasecmp(name.data, type->values[i].name, name.size) == 0) {
        value->integer = type->values[i].value;
        return NULL;
      }
    }
    const char *similar = reflection_suggest_value(type, name);
    return refuse(at, "\"%.*s\" is not a value of enum %s%s%s%s", MAX_SHOWN, name.data, type->name,
                  similar != NULL ? "; did you mean '" : "", similar != NULL ? similar : "",
                  similar != NULL ? "'?" : "");
  }
  if (!signed_value(from, &value->integer))
    return refuse_kind(at, "the name or number of an enum value", from);
  if (value->integer < INT32_MIN || value->integer > INT32_MAX ||
      protobuf_c_enum_descriptor_get_value(type, (int)value->integer) == NULL)
    return refuse(at, "%lld is not a value of enum %s", (long long)value->integer, type->name);
  return NULL;
}

static error *read_string(const json_path *at, const json_t *from, scalar *value)
{
  if (!json_is_string(from))
    return refuse_kind(at, "a string", from);
  value->text = text_copy(string_slice(from)); // jansson has refused \u0000 already
  return value->text != NULL ? NULL : error_no_memory();
}

static error *read_scalar(const json_path *at, field_ref field, const json_t *from, scalar *value)
{
  switch (field->type) {
  case PROTOBUF_C_TYPE_STRING:
    return read_string(at, from, value);
  case PROTOBUF_C_TYPE_BOOL:
    return read_bool(at, from, value);
  case PROTOBUF_C_TYPE_ENUM:
    return read_enum(at, field, from, value);
  case PROTOBUF_C_TYPE_DOUBLE:
  case PROTOBUF_C_TYPE_FLOAT:
    return read_real(at, from, value);
  default:
    return read_integer(at, field, from, value);
  }
}

// ---- messages ----

static error *read_members(const json_path *at, json_t *object, ProtobufCMessage *message);

static error *read_value(const json_path *at, json_t *from, ProtobufCMessage *message,
                         field_ref field)
{
  if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
    scalar value = {0};
    RETURN_IF_ERROR(read_scalar(at, field, from, &value));
    return reflection_put(message, field, value) ? NULL : error_no_memory();
  }
  if (!json_is_object(from))
    return refuse_kind(at, "an object", from);
  ProtobufCMessage *child = reflection_put_message(message, field);
  if (child == NULL)
    return error_no_memory();
  return read_members(at, from, child);
}

static error *read_list(const json_path *at, json_t *array, ProtobufCMessage *message,
                        field_ref field)
{
  if (!json_is_array(array))
    return refuse_kind(at, "an array", array);
  size_t index;
  json_t *element;
  json_array_foreach(array, index, element)
  {
    json_path here = {at, NULL, index};
    RETURN_IF_ERROR(read_value(&here, element, message, field));
  }
  return NULL;
}

static error *read_map(const json_path *at, json_t *object, ProtobufCMessage *message,
                       field_ref field)
{
  if (!json_is_object(object))
    return refuse_kind(at, "an object", object);
  const char *name;
  json_t *element;
  json_object_foreach(object, name, element)
  {
    json_path here = {at, name, 0};
    ProtobufCMessage *entry = reflection_put_message(message, field);
    json_t *key = json_string(name);
    if (entry == NULL || key == NULL) {
      json_decref(key);
      return error_no_memory();
    }
    error *e = read_value(&here, key, entry, &entry->descriptor->fields[0]);
    json_decref(key);
    RETURN_IF_ERROR(e);
    RETURN_IF_ERROR(read_value(&here, element, entry, &entry->descriptor->fields[1]));
  }
  return NULL;
}

// Whether `name` is the JSON name of a proto field: default_model_filename ↔ defaultModelFilename.
static bool is_camel_case_of(const char *name, const char *field_name)
{
  for (; *field_name != '\0'; field_name++, name++) {
    char wanted = *field_name;
    if (wanted == '_') {
      field_name++;
      wanted =
          *field_name >= 'a' && *field_name <= 'z' ? (char)(*field_name - 'a' + 'A') : *field_name;
    }
    if (*name != wanted)
      return false;
  }
  return *name == '\0';
}

static field_ref find_member(const ProtobufCMessageDescriptor *descriptor, const char *name)
{
  for (unsigned i = 0; i < descriptor->n_fields; i++) {
    field_ref field = &descriptor->fields[i];
    if (strcmp(name, field->name) == 0 || is_camel_case_of(name, field->name))
      return field;
  }
  return NULL;
}

// A field may stand under both of its names, a oneof may have two members: both are errors.
static error *check_first(const json_path *at, field_ref field, uint64_t *seen,
                          const ProtobufCMessage *message)
{
  uint64_t bit = (uint64_t)1 << (field - message->descriptor->fields);
  if ((*seen & bit) != 0)
    return refuse(at, "field \"%s\" is specified multiple times", field->name);
  *seen |= bit;
  field_ref other = reflection_is_oneof(field) ? reflection_oneof_member(message, field) : NULL;
  if (other != NULL)
    return refuse(at, "field is specified along with \"%s\", another member of oneof \"%s\"",
                  other->name, reflection_oneof_name(message));
  return NULL;
}

static error *read_member(const json_path *at, json_t *value, ProtobufCMessage *message,
                          uint64_t *seen)
{
  field_ref field = find_member(message->descriptor, at->name);
  if (field == NULL) {
    const char *similar = reflection_suggest_field(message->descriptor, slice_of(at->name));
    return refuse(at, "Cannot find field: message type \"%s\" has no field named \"%.*s\".%s%s%s",
                  message->descriptor->name, MAX_SHOWN, at->name,
                  similar != NULL ? " Did you mean '" : "", similar != NULL ? similar : "",
                  similar != NULL ? "'?" : "");
  }
  if (json_is_null(value))
    return NULL;
  RETURN_IF_ERROR(check_first(at, field, seen, message));
  if (field->label != PROTOBUF_C_LABEL_REPEATED)
    return read_value(at, value, message, field);
  if (reflection_is_map(field))
    return read_map(at, value, message, field);
  return read_list(at, value, message, field);
}

static error *read_members(const json_path *at, json_t *object, ProtobufCMessage *message)
{
  uint64_t seen = 0; // a bit for each field; reflection_declared_fields asserts that 64 suffice
  const char *name;
  json_t *value;
  json_object_foreach(object, name, value)
  {
    json_path here = {at, name, 0};
    RETURN_IF_ERROR(read_member(&here, value, message, &seen));
  }
  return NULL;
}

// ---- the document ----

// jansson holds no integer above INT64_MAX, but a uint64 that config_print_json shows as a number
// may be one. Integers of so many digits go to it as strings, which every integer field reads too.
enum {
  LONG_INTEGER_DIGITS = 19
};

// Length of the integer at `i`, or 0 when the number there goes on as a real.
static size_t integer_length(slice json, size_t i)
{
  size_t start = i;
  while (i < json.size && json.data[i] >= '0' && json.data[i] <= '9')
    i++;
  bool real = i < json.size && strchr(".eE", json.data[i]) != NULL && json.data[i] != '\0';
  return real ? 0 : i - start;
}

static error *quote_long_integers(slice json, buffer *out)
{
  bool in_string = false;
  for (size_t i = 0; i < json.size; i++) {
    char c = json.data[i];
    bool number_starts = !in_string && c >= '1' && c <= '9' &&
                         (i == 0 || strchr("0123456789.eE+-", json.data[i - 1]) == NULL);
    size_t length = number_starts ? integer_length(json, i) : 0;
    if (length >= LONG_INTEGER_DIGITS) {
      buffer_append_char(out, '"');
      buffer_append(out, json.data + i, length);
      buffer_append_char(out, '"');
      i += length - 1;
      continue;
    }
    buffer_append_char(out, c);
    if (c == '"')
      in_string = !in_string;
    else if (in_string && c == '\\' && i + 1 < json.size)
      buffer_append_char(out, json.data[++i]);
  }
  return out->failed ? error_no_memory() : NULL;
}

static void cleanup_json(json_t **value)
{
  json_decref(*value);
}

static error *parse_document(slice json, size_t max_values, json_t **document)
{
  RETURN_IF_ERROR(json_bounds_check(json, max_values));
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  RETURN_IF_ERROR(quote_long_integers(json, &text));
  json_error_t problem;
  *document =
      json_loadb(text.size > 0 ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &problem);
  if (*document == NULL)
    return refuse(NULL, "failed to parse JSON at line %d, column %d: %s", problem.line,
                  problem.column, problem.text);
  return json_is_object(*document) ? NULL : refuse_kind(NULL, "an object", *document);
}

error *message_read_json(slice json, const ProtobufCMessageDescriptor *type, size_t max_values,
                         ProtobufCMessage **message)
{
  json_t *document __attribute__((cleanup(cleanup_json))) = NULL;
  RETURN_IF_ERROR(parse_document(json, max_values, &document));
  ProtobufCMessage *result = reflection_new(type);
  if (result == NULL)
    return error_no_memory();
  error *e = read_members(NULL, document, result);
  if (e == NULL && !reflection_finish_maps(result))
    e = error_no_memory();
  if (e == NULL)
    *message = result;
  else
    protobuf_c_message_free_unpacked(result, NULL);
  return e;
}

error *config_read_json(slice json, Inference__ModelConfig **config)
{
  ProtobufCMessage *message;
  RETURN_IF_ERROR(
      message_read_json(json, &inference__model_config__descriptor, MAX_VALUES, &message));
  *config = (Inference__ModelConfig *)message;
  return NULL;
}
