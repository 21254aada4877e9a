// SPDX-License-Identifier: Apache-2.0
// Prints a message by its descriptor; see text_print.h.
#include "config/text_print.h"

#include "config/config_number_print.h"
#include "config/reflection.h"

#include <inttypes.h>
#include <math.h>

#define INDENT 2

typedef struct printer {
  config_line_visitor *visit;
  void *context;
  buffer path;
  buffer line;
  size_t depth;
} printer;

// ---- lines ----

static void begin_line(printer *p)
{
  p->line.size = 0;
  for (size_t i = 0; i < p->depth * INDENT; i++)
    buffer_append_char(&p->line, ' ');
}

static void end_line(printer *p, size_t value_at, const char *path)
{
  if (p->line.failed || path == NULL)
    return;
  const config_line line = {
      buffer_view(&p->line),
      {p->line.data + value_at, p->line.size - value_at},
      path,
  };
  p->visit(p->context, &line);
}

static void print_bracket(printer *p, const char *name, const char *bracket)
{
  begin_line(p);
  buffer_append_format(&p->line, "%s%s", name, bracket);
  end_line(p, p->line.size, "");
}

// ---- paths ----

static const char *path_text(printer *p)
{
  buffer_append_char(&p->path, '\0');
  if (p->path.failed)
    return NULL;
  p->path.size--;
  return p->path.data;
}

static void enter_field(printer *p, field_ref field)
{
  buffer_append_format(&p->path, "%s%s", p->path.size > 0 ? "." : "", field->name);
}

// ---- scalars ----

static void print_string(buffer *out, const char *text)
{
  buffer_append_char(out, '"');
  for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
    if (*c == '"' || *c == '\\')
      buffer_append_format(out, "\\%c", *c);
    else if (*c == '\n')
      buffer_append_text(out, "\\n");
    else if (*c < ' ' || *c == 0x7f)
      buffer_append_format(out, "\\%03o", *c);
    else
      buffer_append_char(out, (char)*c);
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

static void print_scalar(buffer *out, const ProtobufCMessage *message, field_ref field,
                         size_t index)
{
  scalar value = reflection_get(message, field, index);
  switch (field->type) {
  case PROTOBUF_C_TYPE_UINT32:
  case PROTOBUF_C_TYPE_UINT64:
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

// "dims: [ 3, 224 ]", "name: "x"". An unset value, possible in a map, is printed as its default.
static void print_scalars(printer *p, const ProtobufCMessage *message, field_ref field)
{
  bool is_list = field->label == PROTOBUF_C_LABEL_REPEATED;
  size_t count = is_list ? reflection_count(message, field) : 1;
  size_t size = p->path.size;
  begin_line(p);
  buffer_append_format(&p->line, "%s: ", field->name);
  size_t value_at = p->line.size;
  if (is_list)
    buffer_append_text(&p->line, "[ ");
  for (size_t i = 0; i < count; i++) {
    buffer_append_text(&p->line, i > 0 ? ", " : "");
    print_scalar(&p->line, message, field, i);
  }
  if (is_list) {
    buffer_append_text(&p->line, " ]");
    buffer_append_text(&p->path, "[0]");
  }
  end_line(p, value_at, path_text(p));
  p->path.size = size;
}

// ---- messages ----

static void print_fields(printer *p, const ProtobufCMessage *message);

static void print_block(printer *p, const char *name, const ProtobufCMessage *message)
{
  print_bracket(p, name, " {");
  p->depth++;
  print_fields(p, message);
  p->depth--;
  print_bracket(p, "", "}");
}

// An entry's path has its key: parameters["key"].
static void print_entry(printer *p, field_ref map, const ProtobufCMessage *entry)
{
  field_ref key = &entry->descriptor->fields[0];
  field_ref value = &entry->descriptor->fields[1];
  size_t size = p->path.size;
  buffer_append_char(&p->path, '[');
  if (key->type == PROTOBUF_C_TYPE_STRING)
    buffer_append_json_string(&p->path, slice_of(reflection_get(entry, key, 0).text));
  else
    print_scalar(&p->path, entry, key, 0);
  buffer_append_char(&p->path, ']');
  print_bracket(p, map->name, " {");
  p->depth++;
  begin_line(p);
  buffer_append_text(&p->line, "key: ");
  size_t value_at = p->line.size;
  print_scalar(&p->line, entry, key, 0);
  end_line(p, value_at, path_text(p));
  if (value->type == PROTOBUF_C_TYPE_MESSAGE)
    print_block(p, "value", reflection_get_message(entry, value, 0));
  else
    print_scalars(p, entry, value);
  p->depth--;
  print_bracket(p, "", "}");
  p->path.size = size;
}

static void print_messages(printer *p, const ProtobufCMessage *message, field_ref field)
{
  for (size_t i = 0; i < reflection_count(message, field); i++) {
    const ProtobufCMessage *value = reflection_get_message(message, field, i);
    size_t size = p->path.size;
    if (reflection_is_map(field)) {
      print_entry(p, field, value);
      continue;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
      buffer_append_format(&p->path, "[%zu]", i);
    print_block(p, field->name, value);
    p->path.size = size;
  }
}

static void print_fields(printer *p, const ProtobufCMessage *message)
{
  field_ref fields[REFLECTION_MAX_FIELDS];
  size_t count = reflection_declared_fields(message->descriptor, fields);
  for (size_t i = 0; i < count; i++) {
    size_t size = p->path.size;
    if (reflection_count(message, fields[i]) == 0)
      continue;
    enter_field(p, fields[i]);
    if (fields[i]->type == PROTOBUF_C_TYPE_MESSAGE)
      print_messages(p, message, fields[i]);
    else
      print_scalars(p, message, fields[i]);
    p->path.size = size;
  }
}

bool config_visit_lines(const Inference__ModelConfig *config, config_line_visitor *visit,
                        void *context)
{
  printer p = {.visit = visit, .context = context};
  print_fields(&p, &config->base);
  bool whole = !p.path.failed && !p.line.failed;
  buffer_fini(&p.path);
  buffer_fini(&p.line);
  return whole;
}
