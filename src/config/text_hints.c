// SPDX-License-Identifier: Apache-2.0
// Guesses what the writer of a text meant, as the fix of a mistake; see text_hints.h.
#include "config/text_hints.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_LEVELS 3 // depth of the search for a field in nested messages
#define MAX_PLACES 3 // suggested messages for a field

static bool at_word(const text_reader *reader, const char *word)
{
  const slice text = text_current(reader)->text;
  return text.size == strlen(word) && strncasecmp(text.data, word, text.size) == 0;
}

void text_hint_expected(text_reader *reader, const char *what)
{
  const token *at = text_current(reader);
  const bool number = strcmp(what, "integer") == 0 || strcmp(what, "double") == 0;
  if (reader->fix[0] != '\0')
    return;
  if (at->kind == TOKEN_STRING && (number || strstr(what, "identifier") != NULL))
    text_set_fix(reader, "write it without quotes");
  else if (number && (at_word(reader, "None") || at_word(reader, "null") || at_word(reader, "?")))
    text_set_fix(reader, "write -1 for any size");
  else if (number && (text_at_symbol(reader, '(') || text_at_symbol(reader, '[')))
    text_set_fix(reader, "put numbers only into one pair of brackets: '[ 1, 2 ]'");
  else if (strcmp(what, "string") == 0 && at->kind != TOKEN_SYMBOL && at->kind != TOKEN_END)
    text_set_fix(reader, "put it in quotes");
}

// ---- names ----

static bool is_entry(const ProtobufCMessageDescriptor *descriptor)
{
  return descriptor->n_fields == 2 && strcmp(descriptor->fields[0].name, "key") == 0;
}

void text_hint_name(text_reader *reader)
{
  const token *at = text_current(reader);
  const bool whole = reader->scope->outer == NULL;
  if (at->kind == TOKEN_STRING && is_entry(reader->scope->descriptor))
    text_set_fix(reader, "write 'key: %.*s value: { … }'", SHOWN(*at));
  else if (whole && text_at_symbol(reader, '{'))
    text_set_fix(reader, "if it is JSON: write no brackets around the whole, and names and words "
                         "such as TYPE_FP32 without quotes");
  else if (text_at_symbol(reader, '/'))
    text_set_fix(reader, "begin comments with '#'");
  else if (whole && (text_at_symbol(reader, '}') || text_at_symbol(reader, ']')))
    text_set_fix(reader, "remove it: no bracket is open");
}

const char *text_hint_value(text_reader *reader, const ProtobufCEnumDescriptor *type)
{
  const token *at = text_current(reader);
  if (at->kind != TOKEN_STRING || at->text.size < 2)
    return NULL;
  const slice word = {at->text.data + 1, at->text.size - 2};
  const char *similar = reflection_suggest_value(type, word);
  if (similar != NULL)
    text_set_fix(reader, "write %s, without quotes", similar);
  return similar;
}

// ---- messages ----

void text_hint_message(text_reader *reader, field_ref field)
{
  const ProtobufCMessageDescriptor *inner = field->descriptor;
  const token *at = text_current(reader);
  const bool scalar = at->kind == TOKEN_STRING || at->kind == TOKEN_INTEGER;
  const bool word = at->kind == TOKEN_IDENTIFIER && !text_at_field(reader);
  field_ref named = word ? reflection_field(inner, at->text) : NULL;
  if (scalar && inner->n_fields == 1 && inner->fields[0].type != PROTOBUF_C_TYPE_MESSAGE)
    text_set_fix(reader, "write '%s { %s: %.*s }'", field->name, inner->fields[0].name, SHOWN(*at));
  else if (named != NULL && named->type == PROTOBUF_C_TYPE_MESSAGE)
    text_set_fix(reader, "write '%s { %s { } }'", field->name, named->name);
  else if (word && at_word(reader, "true"))
    text_set_fix(reader, "write '%s { }'", field->name);
  else if (text_at_field(reader))
    text_set_fix(reader, "write '{' before it");
  else
    text_set_fix(reader, "write '%s { … }'", field->name);
}

// ---- levels ----

typedef struct places {
  slice name;
  char text[160]; // 'input { … }' or 'output { … }'
  size_t count;
} places;

static void add_place(places *found, const char *path)
{
  const size_t size = strlen(found->text);
  if (found->count++ < MAX_PLACES)
    snprintf(found->text + size, sizeof(found->text) - size, "%s'%s { … }'", size > 0 ? " or " : "",
             path);
}

// The messages, up to `levels` below, that have the field. Maps count by the values of their
// entries.
static void find_places(places *found, const ProtobufCMessageDescriptor *message, const char *path,
                        int levels)
{
  for (unsigned i = 0; i < message->n_fields; i++) {
    field_ref field = &message->fields[i];
    char below[96];
    if (field->type != PROTOBUF_C_TYPE_MESSAGE)
      continue;
    const ProtobufCMessageDescriptor *inner = field->descriptor;
    if (is_entry(inner)) {
      if (inner->fields[1].type != PROTOBUF_C_TYPE_MESSAGE)
        continue;
      inner = inner->fields[1].descriptor;
    }
    snprintf(below, sizeof(below), "%s%s%s", path, path[0] != '\0' ? "." : "", field->name);
    if (levels > 1)
      find_places(found, inner, below, levels - 1);
    else if (reflection_field(inner, found->name) != NULL)
      add_place(found, below);
  }
}

static bool hint_inside(text_reader *reader, const token *name,
                        const ProtobufCMessageDescriptor *message)
{
  places found = {.name = name->text};
  for (int levels = 1; found.count == 0 && levels <= MAX_LEVELS; levels++)
    find_places(&found, message, "", levels);
  if (found.count > 0 && found.count <= MAX_PLACES)
    text_set_fix(reader, "write it in %s", found.text);
  return found.count > 0;
}

void text_hint_level(text_reader *reader, const token *name)
{
  const text_scope *whole = reader->scope;
  if (!text_goes_on(reader) || !text_is_told(reader) ||
      hint_inside(reader, name, reader->scope->descriptor))
    return;
  for (const text_scope *s = reader->scope; s->outer != NULL; s = s->outer) {
    whole = s->outer;
    if (reflection_field(whole->descriptor, name->text) == NULL)
      continue;
    if (whole->outer == NULL)
      text_set_fix(reader, "write it outside of all brackets");
    else
      text_set_fix(reader, "write it behind the bracket that '%.*s' in line %u opens",
                   SHOWN(s->opened), s->opened.line);
    return;
  }
  hint_inside(reader, name, whole->descriptor);
}
