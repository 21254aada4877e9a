// SPDX-License-Identifier: Apache-2.0
// Lets the reader of the text format continue after a mistake, so that one run finds all mistakes
// of a file: notes the mistake, steps over it, and guesses which bracket is missing. Called by
// text_read.c.
#include "config/text_reader.h"

#include <stdio.h>

// ---- what is found ----

void text_set_fix(text_reader *reader, const char *format, ...)
{
  if (!text_goes_on(reader))
    return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reader->fix, sizeof(reader->fix), format, arguments);
  va_end(arguments);
}

void text_set_fix_close(text_reader *reader, const token *opened, const char *where)
{
  if (opened->kind == TOKEN_IDENTIFIER)
    text_set_fix(reader, "close the bracket of '%.*s' in line %u%s", SHOWN(*opened), opened->line,
                 where);
  else
    text_set_fix(reader, "close the '%.*s' in line %u%s", SHOWN(*opened), opened->line, where);
}

static char *path_text(text_reader *reader)
{
  buffer_append_char(&reader->path, '\0');
  if (reader->path.failed)
    return NULL;
  reader->path.size--;
  return reader->path.data;
}

static bool note_at(text_reader *reader, const error *e, const char *path)
{
  const token *at = &reader->lexer.failed_at;
  if (error_get_code(e) != ERROR_INVALID_ARG || path == NULL)
    return false;
  bool known = at->kind == TOKEN_BAD || at->text.data == reader->noted;
  if (!known) {
    unsigned length = at->text.size > 0 ? (unsigned)at->text.size : 1;
    diagnostics_add(reader->found,
                    &(diagnostic){.severity = DIAGNOSTIC_ERROR,
                                  .code = ERROR_INVALID_ARG,
                                  .message = (char *)error_message(e),
                                  .path = (char *)path,
                                  .place = {at->line, at->column, length},
                                  .fix = reader->fix[0] != '\0' ? reader->fix : NULL});
    reader->noted = at->text.data;
  }
  reader->fix[0] = '\0';
  return true;
}

bool text_note(text_reader *reader, const error *e)
{
  return note_at(reader, e, path_text(reader));
}

// ---- tokens ----

error *text_next(text_reader *reader)
{
  error *e = text_lexer_next(&reader->lexer);
  if (e == NULL || !text_goes_on(reader))
    return e;
  // The token after a value does not belong to the current field.
  if (!note_at(reader, e, ""))
    return e;
  error_free(e);
  text_lexer_skip_bad(&reader->lexer);
  return NULL;
}

static bool at_closer(const text_reader *reader)
{
  return text_at_symbol(reader, '}') || text_at_symbol(reader, '>') || text_at_symbol(reader, ']');
}

static bool at_opener(const text_reader *reader)
{
  return text_at_symbol(reader, '{') || text_at_symbol(reader, '<') || text_at_symbol(reader, '[');
}

// Moves `ahead`; false after text that is no token.
static bool look_ahead(text_lexer *ahead)
{
  error *e = text_lexer_next(ahead);
  error_free(e);
  return e == NULL;
}

static bool is_symbol_of(const text_lexer *ahead, const char *symbols)
{
  return ahead->current.kind == TOKEN_SYMBOL &&
         strchr(symbols, ahead->current.text.data[0]) != NULL;
}

bool text_at_field(const text_reader *reader)
{
  text_lexer ahead = reader->lexer;
  return text_current(reader)->kind == TOKEN_IDENTIFIER && look_ahead(&ahead) &&
         is_symbol_of(&ahead, ":{<[");
}

bool text_fits(const text_reader *reader, field_ref field)
{
  text_lexer ahead = reader->lexer;
  if (!look_ahead(&ahead) || (is_symbol_of(&ahead, ":") && !look_ahead(&ahead)))
    return false;
  if (field->label == PROTOBUF_C_LABEL_REPEATED && is_symbol_of(&ahead, "[") && !look_ahead(&ahead))
    return false;
  const token_kind kind = ahead.current.kind;
  switch (field->type) {
  case PROTOBUF_C_TYPE_MESSAGE:
    return is_symbol_of(&ahead, "{<");
  case PROTOBUF_C_TYPE_STRING:
    return kind == TOKEN_STRING;
  case PROTOBUF_C_TYPE_ENUM:
    return kind == TOKEN_IDENTIFIER;
  case PROTOBUF_C_TYPE_BOOL:
    return kind == TOKEN_IDENTIFIER || kind == TOKEN_INTEGER;
  default:
    return kind == TOKEN_INTEGER || kind == TOKEN_FLOAT || is_symbol_of(&ahead, "-");
  }
}

static error *skip_bracket(text_reader *reader)
{
  size_t open = 0;
  do {
    open += at_opener(reader) || text_at_symbol(reader, '(');
    open -= at_closer(reader) || (open > 0 && text_at_symbol(reader, ')'));
    RETURN_IF_ERROR(text_next(reader));
  } while (open > 0 && text_current(reader)->kind != TOKEN_END);
  return NULL;
}

// One word of other languages, such as np.float32 and tensor(float), is several tokens.
static error *skip_word(text_reader *reader)
{
  const char *end;
  do {
    end = text_current(reader)->text.data + text_current(reader)->text.size;
    RETURN_IF_ERROR(text_next(reader));
  } while (text_current(reader)->text.data == end &&
           (text_current(reader)->kind == TOKEN_IDENTIFIER || text_at_symbol(reader, '.') ||
            text_at_symbol(reader, '(') || text_at_symbol(reader, ')')));
  return NULL;
}

error *text_skip_value(text_reader *reader)
{
  if (text_current(reader)->kind == TOKEN_IDENTIFIER)
    return skip_word(reader);
  if (at_closer(reader) || text_current(reader)->kind == TOKEN_END)
    return NULL;
  if (at_opener(reader) || text_at_symbol(reader, '('))
    return skip_bracket(reader);
  if (text_at_symbol(reader, '=')) // a value follows
    RETURN_IF_ERROR(text_next(reader));
  bool minus = text_at_symbol(reader, '-');
  bool string = text_current(reader)->kind == TOKEN_STRING;
  RETURN_IF_ERROR(text_next(reader));
  if (minus && text_current(reader)->kind != TOKEN_SYMBOL && !text_at_field(reader))
    return text_next(reader);
  while (string && text_current(reader)->kind == TOKEN_STRING)
    RETURN_IF_ERROR(text_next(reader));
  return NULL;
}

static error *skip_separators(text_reader *reader)
{
  while (text_at_symbol(reader, ',') || text_at_symbol(reader, ';'))
    RETURN_IF_ERROR(text_next(reader));
  return NULL;
}

// Skips a comment as in C.
static error *skip_line(text_reader *reader, unsigned line)
{
  while (text_current(reader)->line == line && text_current(reader)->kind != TOKEN_END)
    RETURN_IF_ERROR(text_next(reader));
  return NULL;
}

bool text_ends_list(const text_reader *reader)
{
  bool in_list = false;
  for (const text_scope *s = reader->scope; s->outer != NULL; s = s->outer)
    in_list = in_list || s->opened.kind == TOKEN_SYMBOL;
  return in_list && text_goes_on(reader) && text_at_symbol(reader, ']');
}

error *text_skip_field(text_reader *reader, const token *start)
{
  if (start->kind == TOKEN_SYMBOL && start->text.data[0] == '/')
    return skip_line(reader, start->line);
  bool at_start = text_current(reader)->text.data == start->text.data;
  bool named = start->kind == TOKEN_IDENTIFIER || start->kind == TOKEN_STRING;
  if (at_start && text_current(reader)->kind != TOKEN_END) {
    bool bracket = at_opener(reader);
    RETURN_IF_ERROR(bracket ? skip_bracket(reader) : text_next(reader));
    if (named && text_at_symbol(reader, ':'))
      RETURN_IF_ERROR(text_next(reader));
  }
  if (named && !text_at_field(reader))
    RETURN_IF_ERROR(text_skip_value(reader));
  return skip_separators(reader);
}

bool text_closes_outer(text_reader *reader, const token *name)
{
  const text_scope *scope = reader->scope;
  if (!text_goes_on(reader) || name->line == scope->opened.line)
    return false;
  for (const text_scope *s = scope; s->outer != NULL; s = s->outer) {
    if (name->column <= s->opened.indent && reflection_field(s->outer->descriptor, name->text)) {
      text_set_fix_close(reader, &scope->opened, " before it");
      reader->closing = s->outer;
      return true;
    }
  }
  return false;
}

// ---- paths and places ----

size_t text_path_add(text_reader *reader, const char *name)
{
  size_t size = reader->path.size;
  if (text_tracks(reader))
    buffer_append_format(&reader->path, "%s%s", size > 0 ? "." : "", name);
  return size;
}

size_t text_path_add_index(text_reader *reader, size_t index)
{
  size_t size = reader->path.size;
  if (text_tracks(reader))
    buffer_append_format(&reader->path, "[%zu]", index);
  return size;
}

void text_path_cut(text_reader *reader, size_t size)
{
  reader->path.size = size;
}

size_t text_place(text_reader *reader, const token *first)
{
  if (!text_tracks(reader))
    return 0;
  const size_t index = reader->map->count;
  if (first->text.size == 0) // the end of the text, where a value should be
    return index;
  if (reader->path.failed) {
    reader->map->failed = true;
    return index;
  }
  size_t length = first->text.size;
  if (first->kind == TOKEN_SYMBOL && first->text.data[0] == '-') // up to the end of the number
    while (first->text.data + length < text_current(reader)->text.data &&
           strchr(" \t\r\n,;#]}>", first->text.data[length]) == NULL)
      length++;
  source_map_add(reader->map, buffer_view(&reader->path),
                 (source_place){first->line, first->column, (unsigned)length});
  return index;
}

void text_name_entry(text_reader *reader, size_t first_place, const ProtobufCMessage *parent,
                     field_ref field)
{
  if (!text_tracks(reader))
    return;
  const ProtobufCMessage *entry =
      reflection_get_message(parent, field, reflection_count(parent, field) - 1);
  field_ref key = &entry->descriptor->fields[0];
  scalar value = reflection_get(entry, key, 0);
  size_t size = reader->path.size;
  while (size > 0 && reader->path.data[size - 1] != '[')
    size--;
  AUTO_BUFFER buffer named = BUFFER_EMPTY;
  buffer_append(&named, reader->path.data, size);
  if (key->type == PROTOBUF_C_TYPE_STRING)
    buffer_append_json_string(&named, slice_of(value.text));
  else
    buffer_append_format(&named, "%llu", (unsigned long long)value.unsigned_integer);
  buffer_append_char(&named, ']');
  source_map_name_entry(reader->map, first_place, reader->path.size, &named);
}
