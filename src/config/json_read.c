// SPDX-License-Identifier: Apache-2.0
// Reads the JSON form of a message, driven by the descriptor. Called from load threads with
// clients' overrides and with the configurations that backends complete; from front ends with the
// core's answers. Accepts the same texts as protobuf, which reads them in Triton. Recursion is
// limited by the depth of the schema and of nested lists.
#include "base/cleanup.h"
#include "base/string_map.h"
#include "base/text.h"
#include "config/config.h"
#include "config/json_source.h"
#include "config/message_json.h"
#include "config/reflection.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_VALUES 65536 // in a configuration
#define MAX_SHOWN  100   // bytes of a text that a message quotes

// The place of a value in the document: a list from the value up to the root, on the C stack.
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

static error *refuse_kind(const json_path *at, const char *wanted, const json_token *from)
{
  static const char *const names[] = {
      [JSON_KIND_OBJECT] = "an object", [JSON_KIND_LIST] = "an array",
      [JSON_KIND_STRING] = "a string",  [JSON_KIND_NUMBER] = "a number",
      [JSON_KIND_TRUE] = "true",        [JSON_KIND_FALSE] = "false",
      [JSON_KIND_NULL] = "null",
  };
  const int shown = (int)(from->text.size < MAX_SHOWN ? from->text.size : MAX_SHOWN);
  if (from->kind == JSON_KIND_STRING)
    return refuse(at, "expected %s, got \"%.*s\"", wanted, shown, from->text.data);
  if (from->kind == JSON_KIND_NUMBER)
    return refuse(at, "expected %s, got %.*s", wanted, shown, from->text.data);
  return refuse(at, "expected %s, got %s", wanted, names[from->kind]);
}

// ---- scalars ----

static bool is_string(const json_token *from)
{
  return from->kind == JSON_KIND_STRING;
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

// A number may be written 1e3 or 3.0 as long as it is whole.
static bool whole_number(const json_token *from, double *real)
{
  return from->kind == JSON_KIND_NUMBER && text_to_double(from->text, real) &&
         *real == floor(*real);
}

// A number or a string of digits.
static bool signed_value(const json_token *from, int64_t *value)
{
  double real;
  if (from->kind != JSON_KIND_NUMBER && !is_string(from))
    return false;
  if (text_to_int64(from->text, value))
    return true;
  if (!whole_number(from, &real) || real < -0x1p63 || real >= 0x1p63)
    return false;
  *value = (int64_t)real;
  return true;
}

static bool unsigned_value(const json_token *from, uint64_t *value)
{
  double real;
  if (from->kind != JSON_KIND_NUMBER && !is_string(from))
    return false;
  if (text_to_uint64(from->text, value))
    return true;
  if (!whole_number(from, &real) || real < 0 || real >= 0x1p64)
    return false;
  *value = (uint64_t)real;
  return true;
}

static error *read_integer(const json_path *at, field_ref field, const json_token *from,
                           scalar *value)
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
  return ok ? NULL : refuse_kind(at, integer_name(field), from);
}

static error *read_real(const json_path *at, field_ref field, const json_token *from, scalar *value)
{
  static const struct {
    const char *word;
    double value;
  } words[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
  for (size_t i = 0; is_string(from) && i < sizeof(words) / sizeof(words[0]); i++) {
    if (slice_equal_text(from->text, words[i].word)) {
      value->real = words[i].value;
      return NULL;
    }
  }
  if ((from->kind != JSON_KIND_NUMBER && !is_string(from)) ||
      !text_to_double(from->text, &value->real))
    return refuse_kind(at, "a number", from);
  if (field->type == PROTOBUF_C_TYPE_FLOAT && isinf((float)value->real))
    return refuse_kind(at, "a number of 32 bits", from);
  return NULL;
}

static bool is_one_of(slice text, const char *const words[], size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (text.size == strlen(words[i]) && strncasecmp(text.data, words[i], text.size) == 0)
      return true;
  return false;
}

static error *read_bool(const json_path *at, const json_token *from, scalar *value)
{
  static const char *const yes[] = {"true", "t", "yes", "y", "1"};
  static const char *const no[] = {"false", "f", "no", "n", "0"};
  const size_t count = sizeof(yes) / sizeof(yes[0]);
  const bool is_true =
      from->kind == JSON_KIND_TRUE || (is_string(from) && is_one_of(from->text, yes, count));
  const bool is_false =
      from->kind == JSON_KIND_FALSE || (is_string(from) && is_one_of(from->text, no, count));
  if (!is_true && !is_false)
    return refuse_kind(at, "true or false", from);
  value->integer = is_true ? 1 : 0;
  return NULL;
}

// Compares in any case, and with '-' for '_'.
static bool is_value_name(slice text, const char *name)
{
  size_t i = 0;
  while (i < text.size && name[i] != '\0' &&
         (text.data[i] == '-' ? '_' : toupper((unsigned char)text.data[i])) ==
             toupper((unsigned char)name[i]))
    i++;
  return i == text.size && name[i] == '\0';
}

static error *read_enum(const json_path *at, field_ref field, const json_token *from, scalar *value)
{
  const ProtobufCEnumDescriptor *type = reflection_enum_type(field);
  const bool is_number = signed_value(from, &value->integer);
  if (is_number && value->integer >= INT32_MIN && value->integer <= INT32_MAX &&
      protobuf_c_enum_descriptor_get_value(type, (int)value->integer) != NULL)
    return NULL;
  if (is_number)
    return refuse(at, "%lld is not a value of enum %s", (long long)value->integer, type->name);
  if (!is_string(from))
    return refuse_kind(at, "the name or number of an enum value", from);
  for (unsigned i = 0; i < type->n_values; i++) {
    if (is_value_name(from->text, type->values[i].name)) {
      value->integer = type->values[i].value;
      return NULL;
    }
  }
  const char *similar = reflection_suggest_value(type, from->text);
  return refuse(at, "\"%.*s\" is not a value of enum %s%s%s%s", MAX_SHOWN, from->text.data,
                type->name, similar != NULL ? "; did you mean '" : "",
                similar != NULL ? similar : "", similar != NULL ? "'?" : "");
}

static error *read_string(const json_path *at, const json_token *from, scalar *value)
{
  if (!is_string(from))
    return refuse_kind(at, "a string", from);
  value->text = text_copy(from->text);
  return value->text != NULL ? NULL : error_no_memory();
}

static error *read_scalar(const json_path *at, field_ref field, const json_token *from,
                          scalar *value)
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
    return read_real(at, field, from, value);
  default:
    return read_integer(at, field, from, value);
  }
}

// ---- messages ----

static error *read_members(json_source *source, const json_path *at, ProtobufCMessage *message);

// If a field occurs twice, its members are merged, as on the wire.
static ProtobufCMessage *child_of(ProtobufCMessage *message, field_ref field)
{
  const bool there = field->label != PROTOBUF_C_LABEL_REPEATED && reflection_has(message, field);
  return there ? reflection_get_message(message, field, 0) : reflection_put_message(message, field);
}

// The value is not null; `from` is its first token.
static error *read_value(json_source *source, const json_path *at, const json_token *from,
                         ProtobufCMessage *message, field_ref field)
{
  if (field->type != PROTOBUF_C_TYPE_MESSAGE) {
    scalar value = {0};
    RETURN_IF_ERROR(read_scalar(at, field, from, &value));
    return reflection_put(message, field, value) ? NULL : error_no_memory();
  }
  if (from->kind != JSON_KIND_OBJECT)
    return refuse_kind(at, "an object", from);
  ProtobufCMessage *child = child_of(message, field);
  return child == NULL ? error_no_memory() : read_members(source, at, child);
}

// A single value is taken for a list, and nested lists are flattened. The source bounds their
// depth.
static error *read_list(json_source *source, const json_path *at, const json_token *from,
                        ProtobufCMessage *message, field_ref field)
{
  bool more;
  if (from->kind == JSON_KIND_NULL)
    return NULL;
  if (from->kind != JSON_KIND_LIST)
    return read_value(source, at, from, message, field);
  RETURN_IF_ERROR(json_source_more(source, ']', true, &more));
  for (size_t i = 0; more; i++) {
    const json_path here = {at, NULL, i};
    json_token element;
    RETURN_IF_ERROR(json_source_value(source, &element));
    RETURN_IF_ERROR(read_list(source, &here, &element, message, field));
    RETURN_IF_ERROR(json_source_more(source, ']', false, &more));
  }
  return NULL;
}

static error *read_entry(json_source *source, const json_path *at, ProtobufCMessage *message,
                         field_ref field, string_map *names)
{
  const slice name = slice_of(at->name);
  const json_token key = {JSON_KIND_STRING, name};
  json_token value;
  if (string_map_get(names, name) != NULL)
    return refuse(at, "this name is there twice");
  ProtobufCMessage *entry = reflection_put_message(message, field);
  if (entry == NULL || !string_map_put(names, name, entry))
    return error_no_memory();
  RETURN_IF_ERROR(read_value(source, at, &key, entry, &entry->descriptor->fields[0]));
  RETURN_IF_ERROR(json_source_value(source, &value));
  if (value.kind == JSON_KIND_NULL) // reflection_finish_maps adds a value
    return NULL;
  return read_value(source, at, &value, entry, &entry->descriptor->fields[1]);
}

static error *read_map(json_source *source, const json_path *at, const json_token *from,
                       ProtobufCMessage *message, field_ref field)
{
  AUTO_BUFFER buffer name = BUFFER_EMPTY;
  string_map names = {0};
  bool more;
  if (from->kind != JSON_KIND_OBJECT)
    return refuse_kind(at, "an object", from);
  error *e = json_source_more(source, '}', true, &more);
  while (e == NULL && more) {
    e = json_source_name(source, &name);
    const json_path here = {at, name.data, 0};
    if (e == NULL)
      e = read_entry(source, &here, message, field, &names);
    if (e == NULL)
      e = json_source_more(source, '}', false, &more);
  }
  string_map_fini(&names);
  return e;
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

static error *find_field(const json_path *at, const ProtobufCMessageDescriptor *descriptor,
                         field_ref *field)
{
  for (unsigned i = 0; i < descriptor->n_fields; i++) {
    *field = &descriptor->fields[i];
    if (strcmp(at->name, (*field)->name) == 0 || is_camel_case_of(at->name, (*field)->name))
      return NULL;
  }
  const char *similar = reflection_suggest_field(descriptor, slice_of(at->name));
  return refuse(at, "Cannot find field: message type \"%s\" has no field named \"%.*s\".%s%s%s",
                descriptor->name, MAX_SHOWN, at->name, similar != NULL ? " Did you mean '" : "",
                similar != NULL ? similar : "", similar != NULL ? "'?" : "");
}

// An object has only one member of a oneof, once. *taken is the member read before.
static error *take_oneof(const json_path *at, field_ref field, const ProtobufCMessage *message,
                         field_ref *taken)
{
  if (!reflection_is_oneof(field))
    return NULL;
  if (*taken != NULL)
    return refuse(at, "field is specified along with \"%s\", another member of oneof \"%s\"",
                  (*taken)->name, reflection_oneof_name(message));
  *taken = field;
  return NULL;
}

static error *read_member(json_source *source, const json_path *at, ProtobufCMessage *message,
                          field_ref *taken)
{
  field_ref field = NULL;
  json_token value;
  RETURN_IF_ERROR(find_field(at, message->descriptor, &field));
  RETURN_IF_ERROR(json_source_value(source, &value));
  if (value.kind == JSON_KIND_NULL)
    return NULL;
  RETURN_IF_ERROR(take_oneof(at, field, message, taken));
  if (field->label != PROTOBUF_C_LABEL_REPEATED)
    return read_value(source, at, &value, message, field);
  return reflection_is_map(field) ? read_map(source, at, &value, message, field)
                                  : read_list(source, at, &value, message, field);
}

static error *read_members(json_source *source, const json_path *at, ProtobufCMessage *message)
{
  AUTO_BUFFER buffer name = BUFFER_EMPTY;
  field_ref taken = NULL; // a message has one oneof at most: reflection_oneof_name
  bool more;
  RETURN_IF_ERROR(json_source_more(source, '}', true, &more));
  while (more) {
    RETURN_IF_ERROR(json_source_name(source, &name));
    const json_path here = {at, name.data, 0};
    RETURN_IF_ERROR(read_member(source, &here, message, &taken));
    RETURN_IF_ERROR(json_source_more(source, '}', false, &more));
  }
  return NULL;
}

// ---- the document ----

static error *read_document(json_source *source, ProtobufCMessage *message)
{
  json_token first;
  RETURN_IF_ERROR(json_source_value(source, &first));
  if (first.kind != JSON_KIND_OBJECT)
    return refuse_kind(NULL, "an object", &first);
  RETURN_IF_ERROR(read_members(source, NULL, message));
  RETURN_IF_ERROR(json_source_end(source));
  return reflection_finish_maps(message) ? NULL : error_no_memory();
}

error *message_read_json(slice json, const ProtobufCMessageDescriptor *type, size_t max_values,
                         ProtobufCMessage **message)
{
  json_source source;
  ProtobufCMessage *result = reflection_new(type);
  if (result == NULL)
    return error_no_memory();
  json_source_init(&source, json, max_values);
  error *e = read_document(&source, result);
  json_source_fini(&source);
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
