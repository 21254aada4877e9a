// SPDX-License-Identifier: Apache-2.0
// Prints a configuration as JSON, as GET /v2/models/M/config shows it, driven by the descriptors.
// Called from load threads and by the functions that answer that request.
#include "config/config.h"
#include "config/config_number_print.h"
#include "config/reflection.h"

#include <inttypes.h>
#include <math.h>

// In these messages Triton shows 64-bit numbers as strings, as protobuf's JSON form does; elsewhere
// as numbers.
static const ProtobufCMessageDescriptor *const string_numbers[] = {
    &inference__model_instance_group__secondary_device__descriptor,
    &inference__model_optimization_policy__cuda__graph_spec__shape__descriptor,
    &inference__model_sequence_batching__initial_state__descriptor,
};

static bool has_string_numbers(const ProtobufCMessageDescriptor *descriptor)
{
  for (size_t i = 0; i < sizeof(string_numbers) / sizeof(string_numbers[0]); i++) {
    if (string_numbers[i] == descriptor)
      return true;
  }
  return false;
}

static void print_real(buffer *out, double value, bool single)
{
  if (isnan(value))
    buffer_append_text(out, "\"NaN\"");
  else if (isinf(value))
    buffer_append_text(out, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
  else
    number_print(out, value, single);
}

static void print_enum(buffer *out, field_ref field, int64_t value)
{
  const ProtobufCEnumValue *named =
      protobuf_c_enum_descriptor_get_value(reflection_enum_type(field), (int)value);
  if (named != NULL)
    buffer_append_format(out, "\"%s\"", named->name);
  else
    buffer_append_format(out, "%" PRId64, value);
}

static void print_scalar(buffer *out, const ProtobufCMessage *message, field_ref field,
                         size_t index)
{
  scalar value = reflection_get(message, field, index);
  const char *quote = has_string_numbers(message->descriptor) ? "\"" : "";
  switch (field->type) {
  case PROTOBUF_C_TYPE_INT64:
    buffer_append_format(out, "%s%" PRId64 "%s", quote, value.integer, quote);
    break;
  case PROTOBUF_C_TYPE_UINT64:
    buffer_append_format(out, "%s%" PRIu64 "%s", quote, value.unsigned_integer, quote);
    break;
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
    buffer_append_json_string(out, slice_of(value.text));
    break;
  default:
    buffer_append_format(out, "%" PRId64, value.integer);
    break;
  }
}

static void print_message(buffer *out, const ProtobufCMessage *message);

static void print_value(buffer *out, const ProtobufCMessage *message, field_ref field, size_t index)
{
  if (field->type == PROTOBUF_C_TYPE_MESSAGE)
    print_message(out, reflection_get_message(message, field, index));
  else
    print_scalar(out, message, field, index);
}

static void print_list(buffer *out, const ProtobufCMessage *message, field_ref field)
{
  buffer_append_char(out, '[');
  for (size_t i = 0; i < reflection_count(message, field); i++) {
    if (i > 0)
      buffer_append_char(out, ',');
    print_value(out, message, field, i);
  }
  buffer_append_char(out, ']');
}

static void print_map(buffer *out, const ProtobufCMessage *message, field_ref field)
{
  buffer_append_char(out, '{');
  for (size_t i = 0; i < reflection_count(message, field); i++) {
    const ProtobufCMessage *entry = reflection_get_message(message, field, i);
    field_ref key = &entry->descriptor->fields[0];
    if (i > 0)
      buffer_append_char(out, ',');
    if (key->type == PROTOBUF_C_TYPE_STRING) {
      print_scalar(out, entry, key, 0);
    } else {
      buffer_append_char(out, '"');
      print_scalar(out, entry, key, 0);
      buffer_append_char(out, '"');
    }
    buffer_append_char(out, ':');
    print_value(out, entry, &entry->descriptor->fields[1], 0);
  }
  buffer_append_char(out, '}');
}

// Unset messages and members of oneofs do not appear; everything else does.
static bool is_shown(const ProtobufCMessage *message, field_ref field)
{
  if (field->label == PROTOBUF_C_LABEL_REPEATED)
    return true;
  if (field->type != PROTOBUF_C_TYPE_MESSAGE && !reflection_is_oneof(field))
    return true;
  return reflection_has(message, field);
}

static void print_message(buffer *out, const ProtobufCMessage *message)
{
  field_ref fields[REFLECTION_MAX_FIELDS];
  size_t count = reflection_declared_fields(message->descriptor, fields);
  const char *separator = "";
  buffer_append_char(out, '{');
  for (size_t i = 0; i < count; i++) {
    if (!is_shown(message, fields[i]))
      continue;
    buffer_append_format(out, "%s\"%s\":", separator, fields[i]->name);
    separator = ",";
    if (fields[i]->label != PROTOBUF_C_LABEL_REPEATED)
      print_value(out, message, fields[i], 0);
    else if (reflection_is_map(fields[i]))
      print_map(out, message, fields[i]);
    else
      print_list(out, message, fields[i]);
  }
  buffer_append_char(out, '}');
}

error *config_print_json(const Inference__ModelConfig *config, buffer *out)
{
  print_message(out, &config->base);
  return out->failed ? error_no_memory() : NULL;
}
