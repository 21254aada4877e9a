// SPDX-License-Identifier: Apache-2.0
// Access to protobuf-c messages by descriptor. Called by the readers and printers of this
// directory, on their caller's thread; no state.
#include "config/reflection.h"

#include "base/checked.h"
#include "base/string_map.h"
#include "config/model_config.pb-c.h"
#include "config/suggestion.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- descriptors ----

// The names and places of oneofs, which protobuf-c's descriptors lack: the union is at the end of
// the struct wherever the .proto declares it. (A oneof of scalars stays at the end, where
// protobuf's JSON form shows it.) No message has two.
static const struct oneof {
  const ProtobufCMessageDescriptor *message;
  const char *name;
  enum oneof_position {
    ONEOF_FIRST,
    ONEOF_AFTER,
    ONEOF_LAST
  } position;
  const char *after; // the field declared just before
} oneofs[] = {
    {&inference__model_version_policy__descriptor, "policy_choice", ONEOF_LAST, NULL},
    {&inference__model_sequence_batching__descriptor, "strategy_choice", ONEOF_FIRST, NULL},
    {&inference__model_sequence_batching__initial_state__descriptor, "state_data", ONEOF_LAST,
     NULL},
    {&inference__model_warmup__input__descriptor, "input_data_type", ONEOF_LAST, NULL},
    {&inference__model_metrics__metric_control__descriptor, "metric_options", ONEOF_LAST, NULL},
    {&inference__model_config__descriptor, "scheduling_choice", ONEOF_AFTER, "optimization"},
};

static const struct oneof *oneof_of(const ProtobufCMessageDescriptor *descriptor)
{
  for (size_t i = 0; i < sizeof(oneofs) / sizeof(oneofs[0]); i++) {
    if (oneofs[i].message == descriptor)
      return &oneofs[i];
  }
  assert(!"every message with a oneof has a row");
  return &oneofs[0];
}

const char *reflection_oneof_name(const ProtobufCMessage *message)
{
  return oneof_of(message->descriptor)->name;
}

ProtobufCMessage *reflection_new(const ProtobufCMessageDescriptor *descriptor)
{
  ProtobufCMessage *message = calloc(1, descriptor->sizeof_message);
  if (message != NULL)
    descriptor->message_init(message);
  return message;
}

field_ref reflection_field(const ProtobufCMessageDescriptor *descriptor, slice name)
{
  for (unsigned i = 0; i < descriptor->n_fields; i++) {
    if (slice_equal_text(name, descriptor->fields[i].name))
      return &descriptor->fields[i];
  }
  return NULL;
}

bool reflection_is_oneof(field_ref field)
{
  return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

const ProtobufCEnumDescriptor *reflection_enum_type(field_ref field)
{
  assert(field->type == PROTOBUF_C_TYPE_ENUM);
  return field->descriptor;
}

static const ProtobufCMessageDescriptor *message_type(field_ref field)
{
  assert(field->type == PROTOBUF_C_TYPE_MESSAGE);
  return field->descriptor;
}

bool reflection_is_map(field_ref field)
{
  if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE)
    return false;
  // protoc-c makes a message <Field>Entry of a map; no other message of the schema ends so.
  const ProtobufCMessageDescriptor *entry = message_type(field);
  size_t length = strlen(entry->short_name);
  return entry->n_fields == 2 && length > 5 && strcmp(entry->short_name + length - 5, "Entry") == 0;
}

// Position of a field's declaration, times two so that a oneof fits between two fields.
static size_t declared_position(const ProtobufCMessageDescriptor *descriptor, field_ref field)
{
  const struct oneof *oneof = reflection_is_oneof(field) ? oneof_of(descriptor) : NULL;
  if (oneof == NULL || oneof->position == ONEOF_LAST)
    return (size_t)field->offset * 2;
  if (oneof->position == ONEOF_FIRST)
    return 0;
  return (size_t)reflection_field(descriptor, slice_of(oneof->after))->offset * 2 + 1;
}

size_t reflection_declared_fields(const ProtobufCMessageDescriptor *descriptor,
                                  field_ref fields[REFLECTION_MAX_FIELDS])
{
  assert(descriptor->n_fields <= REFLECTION_MAX_FIELDS);
  size_t positions[REFLECTION_MAX_FIELDS];
  size_t count = 0;
  for (; count < descriptor->n_fields; count++) {
    field_ref field = &descriptor->fields[count];
    size_t position = declared_position(descriptor, field);
    size_t at =
        count; // insertion sort: equal positions (a oneof's members) stay in order of number
    for (; at > 0 && positions[at - 1] > position; at--) {
      positions[at] = positions[at - 1];
      fields[at] = fields[at - 1];
    }
    positions[at] = position;
    fields[at] = field;
  }
  return count;
}

// ---- reading values ----

static void *at_offset(const ProtobufCMessage *message, unsigned offset)
{
  return (char *)message + offset;
}

static uint32_t *oneof_case(const ProtobufCMessage *message, field_ref field)
{
  return at_offset(message, field->quantifier_offset);
}

field_ref reflection_oneof_member(const ProtobufCMessage *message, field_ref field)
{
  uint32_t set = *oneof_case(message, field);
  for (unsigned i = 0; set != 0 && i < message->descriptor->n_fields; i++) {
    field_ref other = &message->descriptor->fields[i];
    if (other->id == set && reflection_is_oneof(other))
      return other;
  }
  return NULL;
}

static size_t value_size(field_ref field)
{
  switch (field->type) {
  case PROTOBUF_C_TYPE_INT64:
  case PROTOBUF_C_TYPE_UINT64:
    return sizeof(int64_t);
  case PROTOBUF_C_TYPE_DOUBLE:
    return sizeof(double);
  case PROTOBUF_C_TYPE_FLOAT:
    return sizeof(float);
  case PROTOBUF_C_TYPE_BOOL:
    return sizeof(protobuf_c_boolean);
  case PROTOBUF_C_TYPE_STRING:
  case PROTOBUF_C_TYPE_MESSAGE:
    return sizeof(void *);
  default: // INT32, UINT32, ENUM; the schema has no others
    return sizeof(int32_t);
  }
}

// The address of the field's value `index`.
static void *value_at(const ProtobufCMessage *message, field_ref field, size_t index)
{
  void *storage = at_offset(message, field->offset);
  if (field->label != PROTOBUF_C_LABEL_REPEATED)
    return storage;
  return *(char **)storage + index * value_size(field);
}

static scalar load(field_ref field, const void *from)
{
  scalar value = {0};
  switch (field->type) {
  case PROTOBUF_C_TYPE_INT64:
    value.integer = *(const int64_t *)from;
    break;
  case PROTOBUF_C_TYPE_UINT64:
    value.unsigned_integer = *(const uint64_t *)from;
    break;
  case PROTOBUF_C_TYPE_UINT32:
    value.unsigned_integer = *(const uint32_t *)from;
    break;
  case PROTOBUF_C_TYPE_DOUBLE:
    value.real = *(const double *)from;
    break;
  case PROTOBUF_C_TYPE_FLOAT:
    value.real = *(const float *)from;
    break;
  case PROTOBUF_C_TYPE_STRING:
    value.text = *(char *const *)from;
    if (value.text == NULL)
      value.text = (char *)protobuf_c_empty_string;
    break;
  default: // INT32, ENUM, BOOL: all ints
    value.integer = *(const int32_t *)from;
    break;
  }
  return value;
}

scalar reflection_get(const ProtobufCMessage *message, field_ref field, size_t index)
{
  return load(field, value_at(message, field, index));
}

ProtobufCMessage *reflection_get_message(const ProtobufCMessage *message, field_ref field,
                                         size_t index)
{
  return *(ProtobufCMessage **)value_at(message, field, index);
}

static bool is_zero(field_ref field, scalar value)
{
  switch (field->type) {
  case PROTOBUF_C_TYPE_STRING:
    return value.text[0] == '\0';
  case PROTOBUF_C_TYPE_DOUBLE:
  case PROTOBUF_C_TYPE_FLOAT:
    return value.real == 0 && !signbit(value.real); // as protobuf: -0 is set
  default:
    return value.integer == 0;
  }
}

bool reflection_has(const ProtobufCMessage *message, field_ref field)
{
  if (reflection_is_oneof(field))
    return *oneof_case(message, field) == field->id;
  if (field->type == PROTOBUF_C_TYPE_MESSAGE)
    return reflection_get_message(message, field, 0) != NULL;
  return !is_zero(field, reflection_get(message, field, 0));
}

size_t reflection_count(const ProtobufCMessage *message, field_ref field)
{
  if (field->label == PROTOBUF_C_LABEL_REPEATED)
    return *(size_t *)at_offset(message, field->quantifier_offset);
  return reflection_has(message, field) ? 1 : 0;
}

// ---- writing values ----

static void release_value(field_ref field, void *at)
{
  if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
    protobuf_c_message_free_unpacked(*(ProtobufCMessage **)at, NULL);
  } else if (field->type == PROTOBUF_C_TYPE_STRING) {
    char *text = *(char **)at;
    if (text != protobuf_c_empty_string)
      free(text);
  }
}

static void store(field_ref field, void *to, scalar value)
{
  switch (field->type) {
  case PROTOBUF_C_TYPE_INT64:
    *(int64_t *)to = value.integer;
    break;
  case PROTOBUF_C_TYPE_UINT64:
    *(uint64_t *)to = value.unsigned_integer;
    break;
  case PROTOBUF_C_TYPE_UINT32:
    *(uint32_t *)to = (uint32_t)value.unsigned_integer;
    break;
  case PROTOBUF_C_TYPE_DOUBLE:
    *(double *)to = value.real;
    break;
  case PROTOBUF_C_TYPE_FLOAT:
    *(float *)to = (float)value.real;
    break;
  case PROTOBUF_C_TYPE_STRING:
    *(char **)to = value.text;
    break;
  default:
    *(int32_t *)to = (int32_t)value.integer;
    break;
  }
}

// Makes room for one more value of a repeated field and counts it. Arrays grow at 0, 4, 8, 16, …,
// so the capacity need not be stored. NULL when memory is short.
static void *append_slot(ProtobufCMessage *message, field_ref field)
{
  size_t *count = at_offset(message, field->quantifier_offset);
  void **array = at_offset(message, field->offset);
  size_t size = value_size(field);
  if (*count == 0 || (*count >= 4 && (*count & (*count - 1)) == 0)) {
    size_t bytes;
    if (!checked_multiply_size(*count == 0 ? 4 : *count * 2, size, &bytes))
      return NULL;
    void *grown = realloc(*array, bytes);
    if (grown == NULL)
      return NULL;
    *array = grown;
  }
  return (char *)*array + (*count)++ * size;
}

// Empties a singular field, or the oneof that it belongs to, and returns where its value goes.
static void *cleared_slot(ProtobufCMessage *message, field_ref field)
{
  field_ref present = field;
  if (reflection_is_oneof(field)) {
    present = reflection_oneof_member(message, field);
    *oneof_case(message, field) = field->id;
  }
  void *slot = at_offset(message, field->offset);
  if (present != NULL)
    release_value(present, slot);
  return slot;
}

static void *slot_for(ProtobufCMessage *message, field_ref field)
{
  if (field->label == PROTOBUF_C_LABEL_REPEATED)
    return append_slot(message, field);
  return cleared_slot(message, field);
}

bool reflection_put(ProtobufCMessage *message, field_ref field, scalar value_owned)
{
  void *slot = slot_for(message, field);
  if (slot == NULL) {
    if (field->type == PROTOBUF_C_TYPE_STRING)
      free(value_owned.text);
    return false;
  }
  store(field, slot, value_owned);
  return true;
}

ProtobufCMessage *reflection_put_message(ProtobufCMessage *message, field_ref field)
{
  ProtobufCMessage *child = reflection_new(message_type(field));
  if (child == NULL)
    return NULL;
  void *slot = slot_for(message, field);
  if (slot == NULL) {
    protobuf_c_message_free_unpacked(child, NULL);
    return NULL;
  }
  *(ProtobufCMessage **)slot = child;
  return child;
}

// ---- maps ----

// The bytes of the key, for comparison.
static slice key_bytes(const ProtobufCMessage *entry)
{
  field_ref key = &entry->descriptor->fields[0];
  const void *at = value_at(entry, key, 0);
  if (key->type == PROTOBUF_C_TYPE_STRING)
    return slice_of(load(key, at).text);
  return (slice){at, value_size(key)};
}

static bool unite_equal_keys(ProtobufCMessage *message, field_ref field)
{
  string_map kept_at = {0}; // key → index of its entry + 1
  size_t *count = at_offset(message, field->quantifier_offset);
  ProtobufCMessage **entries = *(ProtobufCMessage ***)at_offset(message, field->offset);
  size_t kept = 0;
  bool ok = true;
  for (size_t i = 0; i < *count; i++) {
    ProtobufCMessage *entry = entries[i];
    uintptr_t kept_index = ok ? (uintptr_t)string_map_get(&kept_at, key_bytes(entry)) : 0;
    if (kept_index != 0) {
      protobuf_c_message_free_unpacked(entries[kept_index - 1], NULL);
      entries[kept_index - 1] = entry;
      continue;
    }
    entries[kept++] = entry;
    ok = ok && string_map_put(&kept_at, key_bytes(entry), (void *)(uintptr_t)kept);
  }
  *count = kept;
  string_map_fini(&kept_at);
  return ok;
}

// An entry written without its value has an empty one.
static bool complete_entry(ProtobufCMessage *entry)
{
  field_ref value = &entry->descriptor->fields[1];
  if (value->type != PROTOBUF_C_TYPE_MESSAGE || reflection_has(entry, value))
    return true;
  return reflection_put_message(entry, value) != NULL;
}

static bool finish_field(ProtobufCMessage *message, field_ref field)
{
  bool map = reflection_is_map(field);
  for (size_t i = 0; i < reflection_count(message, field); i++) {
    ProtobufCMessage *child = reflection_get_message(message, field, i);
    if ((map && !complete_entry(child)) || !reflection_finish_maps(child))
      return false;
  }
  return !map || unite_equal_keys(message, field);
}

bool reflection_finish_maps(ProtobufCMessage *message)
{
  for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
    field_ref field = &message->descriptor->fields[i];
    if (field->type == PROTOBUF_C_TYPE_MESSAGE && !finish_field(message, field))
      return false;
  }
  return true;
}

// ---- suggestions ----

const char *reflection_suggest_field(const ProtobufCMessageDescriptor *descriptor, slice name)
{
  suggestion s = suggestion_of(name);
  for (unsigned i = 0; i < descriptor->n_fields; i++)
    suggestion_consider(&s, descriptor->fields[i].name);
  return s.best;
}

const char *reflection_suggest_value(const ProtobufCEnumDescriptor *descriptor, slice name)
{
  suggestion s = suggestion_of(name);
  for (unsigned i = 0; i < descriptor->n_values; i++)
    suggestion_consider(&s, descriptor->values[i].name);
  return s.best;
}
