// Prints a configuration in protobuf's text format, as one would write it: no unset field, two
// spaces a level. What config_read_text reads back must be the same. For tests and fuzz targets.
#ifndef NEREID_TESTS_CONFIG_PRINT_TEXT_H
#define NEREID_TESTS_CONFIG_PRINT_TEXT_H

#include "config/config.h"
#include "config/number_print.h"
#include "config/reflection.h"

#include <inttypes.h>
#include <math.h>

static void print_string(buffer *out, const char *text)
{
  buffer_append_char(out, '"');
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      buffer_append_format(out, "\\%c", c);
    else if (c == '\n')
      buffer_append_text(out, "\\n");
    else if (c < 0x20 || c == 0x7F)
      buffer_append_format(out, "\\%03o", c);
    else
      buffer_append_char(out, (char)c);
  }
  buffer_append_char(out, '"');
}

static void print_real(buffer *out, double value, bool single)
{
  if (isnan(value))
    buffer_append_text(out, "nan");
  else if (isinf(value))
    buffer_append_text(out, value > 0 ? "inf" : "-inf");
  else
    number_print(out, value, single);
}

static void print_enum(buffer *out, field_ref field, int64_t value)
{
  const ProtobufCEnumValue *named =
      protobuf_c_enum_descriptor_get_value(reflection_enum_type(field), (int)value);
  if (named != NULL)
    buffer_append_text(out, named->name);
  else
    buffer_append_format(out, "%" PRId64, value);
}

static void print_scalar(buffer *out, field_ref field, scalar value)
{
  switch (field->type) {
  case PROTOBUF_C_TYPE_UINT64:
  case PROTOBUF_C_TYPE_UINT32:
    buffer_append_format(out, "%" PRIu64, value.unsigned_integer);
    break;
  case PROTOBUF_C_TYPE_DOUBLE:
  case PROTOBUF_C_TYPE_FLOAT:
    print_real(out, value.real, field->type == PROTOBUF_C_TYPE_FLOAT);
    break;
  case PROTOBUF_C_TYPE_BOOL:
    buffer_append_text(out, value.integer != 0 ? "true" : "false");
    break;
  case PROTOBUF_C_TYPE_ENUM:
    print_enum(out, field, value.integer);
    break;
  case PROTOBUF_C_TYPE_STRING:
    print_string(out, value.text);
    break;
  default:
    buffer_append_format(out, "%" PRId64, value.integer);
    break;
  }
}

static void indent(buffer *out, int depth)
{
  buffer_append_format(out, "%*s", depth * 2, "");
}

static void print_text_message(buffer *out, const ProtobufCMessage *message, int depth);

static void print_scalars(buffer *out, const ProtobufCMessage *message, field_ref field,
                          size_t count, int depth)
{
  bool list = field->label == PROTOBUF_C_LABEL_REPEATED;
  indent(out, depth);
  buffer_append_format(out, "%s: %s", field->name, list ? "[" : "");
  for (size_t i = 0; i < count; i++) {
    if (i > 0)
      buffer_append_text(out, ", ");
    print_scalar(out, field, reflection_get(message, field, i));
  }
  buffer_append_text(out, list ? "]\n" : "\n");
}

static void print_text_messages(buffer *out, const ProtobufCMessage *message, field_ref field,
                                size_t count, int depth)
{
  for (size_t i = 0; i < count; i++) {
    indent(out, depth);
    buffer_append_format(out, "%s {\n", field->name);
    print_text_message(out, reflection_get_message(message, field, i), depth + 1);
    indent(out, depth);
    buffer_append_text(out, "}\n");
  }
}

static void print_text_message(buffer *out, const ProtobufCMessage *message, int depth)
{
  field_ref fields[REFLECTION_MAX_FIELDS];
  size_t field_count = reflection_declared_fields(message->descriptor, fields);
  for (size_t i = 0; i < field_count; i++) {
    size_t count = reflection_count(message, fields[i]);
    if (count == 0)
      continue;
    if (fields[i]->type == PROTOBUF_C_TYPE_MESSAGE)
      print_text_messages(out, message, fields[i], count, depth);
    else
      print_scalars(out, message, fields[i], count, depth);
  }
}

static error *config_print_text(const Inference__ModelConfig *config, buffer *out)
{
  print_text_message(out, &config->base, 0);
  return out->failed ? error_no_memory() : NULL;
}

#endif
