// SPDX-License-Identifier: Apache-2.0
// Prints excerpts; see excerpt.h. The only state is the caller's.
#include "check/excerpt.h"

#include "base/table.h"
#include "base/text.h"

#include <string.h>

#define TAB_WIDTH    8
#define MAX_WIDTH    100 // characters of a line that are shown
#define WIDTH_BEFORE 50  // of them before the place, if the line is long
#define CUT          "…"

// ---- lines ----

static void begin_line(excerpt_source *s, unsigned line, size_t offset)
{
  s->line = line;
  s->line_offset = s->offset = offset;
  s->column = 1;
}

static bool go_to_line(excerpt_source *s, unsigned line)
{
  if (s->line == 0 || s->line > line)
    begin_line(s, 1, 0);
  while (s->line < line) {
    const char *end = memchr(s->text.data + s->offset, '\n', s->text.size - s->offset);
    if (end == NULL)
      return false;
    begin_line(s, s->line + 1, (size_t)(end - s->text.data) + 1);
  }
  return s->text.size > 0;
}

static void go_to_column(excerpt_source *s, unsigned column)
{
  if (s->column > column)
    begin_line(s, s->line, s->line_offset);
  while (s->column < column && s->offset < s->text.size && s->text.data[s->offset] != '\n') {
    bool tab = s->text.data[s->offset++] == '\t';
    s->column += tab ? TAB_WIDTH - (s->column - 1) % TAB_WIDTH : 1;
  }
}

// The part of the line that may be shown.
static slice line_at(const excerpt_source *s)
{
  size_t rest = s->text.size - s->offset;
  size_t enough = rest < 8 * MAX_WIDTH ? rest : 8 * MAX_WIDTH;
  const char *from = s->text.data + s->offset;
  const char *end = memchr(from, '\n', enough);
  size_t size = s->offset - s->line_offset + (end != NULL ? (size_t)(end - from) : enough);
  const char *begin = s->text.data + s->line_offset;
  while (size > 0 && begin[size - 1] == '\r')
    size--;
  return (slice){begin, size};
}

// The first byte to show, so that the place is visible.
static size_t first_shown(slice line, size_t meant)
{
  if (line.size <= MAX_WIDTH || meant <= WIDTH_BEFORE)
    return 0;
  size_t begin = meant - WIDTH_BEFORE;
  while (begin > 0 && ((unsigned char)line.data[begin] & 0xc0) == 0x80)
    begin--;
  return begin;
}

static char caret_of(size_t at, size_t begin, size_t end)
{
  if (at < begin || at >= end)
    return ' ';
  return at == begin ? '^' : '~';
}

static size_t end_of(slice line, size_t begin, size_t length)
{
  if (begin >= line.size || length == 0)
    return begin + 1;
  return length > line.size - begin ? line.size : begin + length;
}

// Ends the line and its carets at the greatest width.
static void print_tail(slice line, size_t at, size_t begin, buffer *out, buffer *carets)
{
  if (at < line.size)
    buffer_append_text(out, CUT);
  else if (begin >= line.size)
    buffer_append_char(carets, '^'); // after the last character
  while (carets->size > 0 && carets->data[carets->size - 1] == ' ')
    carets->size--;
}

// Prints the character at `at` and its caret. Returns its bytes.
static size_t print_character(slice line, size_t at, size_t column, char caret, buffer *out,
                              buffer *carets)
{
  size_t size = text_utf8_length(line.data + at, line.size - at);
  size_t width = size == 0 ? 1 : table_character_width(line.data + at, size);
  size += size == 0;
  if (line.data[at] == '\t')
    width = TAB_WIDTH - column % TAB_WIDTH;
  table_append_visible(out, (slice){line.data + at, size});
  for (size_t i = 0; i < width; i++) {
    if (i > 0 && line.data[at] == '\t')
      buffer_append_char(out, ' ');
    buffer_append_char(carets, i > 0 && caret == '^' ? '~' : caret);
  }
  return size;
}

void excerpt_print(excerpt_source *source, source_place place, buffer *out, buffer *carets)
{
  if (place.line == 0 || !go_to_line(source, place.line))
    return;
  go_to_column(source, place.column);
  slice line = line_at(source);
  size_t begin = source->offset - source->line_offset;
  size_t end = end_of(line, begin, place.length);
  size_t at = first_shown(line, begin);
  size_t before = carets->size;
  if (at > 0) {
    buffer_append_text(out, CUT);
    buffer_append_char(carets, ' ');
  }
  while (at < line.size && carets->size - before < MAX_WIDTH && !carets->failed)
    at += print_character(line, at, carets->size - before, caret_of(at, begin, end), out, carets);
  print_tail(line, at, begin, out, carets);
}
