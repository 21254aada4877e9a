// SPDX-License-Identifier: Apache-2.0
// Draws tables.
#include "base/table.h"

#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_WIDTH 8 // of a column that is narrowed

void table_init(table *t, size_t column_count, const char *const *headings)
{
  *t = (table){.column_count = column_count};
  table_add(t, headings);
}

void table_fini(table *t)
{
  for (size_t i = 0; i < t->cell_count; i++)
    free(t->cells[i]);
  free(t->cells);
  *t = (table){0};
}

// ---- characters ----

static uint32_t code_point(const char *text, size_t size)
{
  static const unsigned char bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07}; // of the first byte
  uint32_t code = (unsigned char)text[0] & bits[size];
  for (size_t i = 1; i < size; i++)
    code = code << 6 | ((unsigned char)text[i] & 0x3f);
  return code;
}

typedef struct range {
  uint32_t first, last;
} range;

static bool is_in(uint32_t code, const range *ranges, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (code >= ranges[i].first && code <= ranges[i].last)
      return true;
  return false;
}

size_t table_character_width(const char *text, size_t size)
{
  static const range none[] = {{0x300, 0x36f},   {0x1ab0, 0x1aff}, {0x200b, 0x200f},
                               {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
                               {0xfeff, 0xfeff}};
  static const range two[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},  {0x3041, 0xa4cf},
                              {0xac00, 0xd7a3},   {0xf900, 0xfaff},  {0xfe30, 0xfe6f},
                              {0xff00, 0xff60},   {0xffe0, 0xffe6},  {0x1f300, 0x1f64f},
                              {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  uint32_t code = code_point(text, size);
  if (is_in(code, none, sizeof(none) / sizeof(none[0])))
    return 0;
  return is_in(code, two, sizeof(two) / sizeof(two[0])) ? 2 : 1;
}

// Characters that control a terminal or change the direction of text would falsify the table.
static bool is_control(uint32_t code)
{
  static const range ranges[] = {{0, 0x1f}, {0x7f, 0x9f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
  return is_in(code, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

void table_append_visible(buffer *out, slice text)
{
  for (size_t at = 0, size; at < text.size; at += size) {
    size = text_utf8_length(text.data + at, text.size - at);
    if (size == 0)
      buffer_append_char(out, '?');
    else if (is_control(code_point(text.data + at, size)))
      buffer_append_char(out, ' ');
    else
      buffer_append_slice(out, (slice){text.data + at, size});
    size += size == 0;
  }
}

void table_append_visible_lines(buffer *out, slice text)
{
  while (text.size > 0) {
    const char *end = memchr(text.data, '\n', text.size);
    size_t size = end != NULL ? (size_t)(end - text.data) : text.size;
    table_append_visible(out, (slice){text.data, size});
    if (end != NULL)
      buffer_append_char(out, '\n');
    size += end != NULL;
    text = (slice){text.data + size, text.size - size};
  }
}

static char *copy_cell(const char *text)
{
  buffer copy = BUFFER_EMPTY;
  table_append_visible(&copy, slice_of(text));
  return buffer_take_text(&copy);
}

// Bytes of the character at `text`; cells hold valid UTF-8 only.
static size_t character_size(const char *text)
{
  return text_utf8_length(text, strnlen(text, 4));
}

static size_t width_of(const char *text)
{
  size_t width = 0;
  for (size_t size; *text != '\0'; text += size) {
    size = character_size(text);
    width += table_character_width(text, size);
  }
  return width;
}

void table_add(table *t, const char *const *cells)
{
  if (t->column_count > t->cell_capacity - t->cell_count) {
    size_t capacity = 2 * t->cell_capacity + 8 * t->column_count;
    char **grown = reallocarray(t->cells, capacity, sizeof(*grown));
    if (grown == NULL)
      return;
    t->cells = grown;
    t->cell_capacity = capacity;
  }
  for (size_t i = 0; i < t->column_count; i++)
    t->cells[t->cell_count + i] = copy_cell(cells[i]);
  t->cell_count += t->column_count;
}

static const char *cell(const table *t, size_t at)
{
  return t->cells[at] != NULL ? t->cells[at] : "";
}

static void append_repeated(buffer *out, char c, size_t count)
{
  for (size_t i = 0; i < count; i++)
    buffer_append_char(out, c);
}

static void print_rule(const table *t, const size_t *widths, buffer *out)
{
  for (size_t i = 0; i < t->column_count; i++) {
    buffer_append_char(out, '+');
    append_repeated(out, '-', widths[i] + 2);
  }
  buffer_append_text(out, "+\n");
}

// ---- lines of a cell ----

// The bytes of `text` that fit into `width` columns; at least one character.
static size_t fitting(const char *text, size_t width)
{
  size_t taken = 0;
  size_t used = 0;
  while (text[taken] != '\0') {
    size_t size = character_size(text + taken);
    used += table_character_width(text + taken, size);
    if (used > width && taken > 0)
      break;
    taken += size;
  }
  return taken;
}

// The size of the line that begins at `text`: to its last blank, else to a mark in its second half,
// else to its full width.
static size_t line_size(const char *text, size_t width)
{
  size_t most = fitting(text, width);
  if (text[most] == '\0' || text[most] == ' ')
    return most;
  for (size_t i = most; i > 0; i--)
    if (text[i - 1] == ' ')
      return i;
  for (size_t i = most; i > most / 2; i--)
    if (strchr(",;:/_-", text[i - 1]) != NULL)
      return i;
  return most;
}

// Writes one line of the cell at *text and moves *text behind it.
static void print_line(const char **text, size_t width, buffer *out)
{
  size_t size = line_size(*text, width);
  size_t shown = size;
  while (shown > 0 && (*text)[shown - 1] == ' ' && (*text)[size] != '\0')
    shown--;
  buffer_append_text(out, "| ");
  size_t used = 0;
  for (size_t at = 0, step; at < shown; at += step) {
    step = character_size(*text + at);
    used += table_character_width(*text + at, step);
  }
  buffer_append_slice(out, (slice){*text, shown});
  append_repeated(out, ' ', width > used ? width - used + 1 : 1);
  *text += size;
  while (size > 0 && **text == ' ')
    (*text)++;
}

// ---- the table ----

static void print_row(const table *t, size_t row, const size_t *widths, buffer *out)
{
  const char *rest[TABLE_MAX_COLUMNS];
  for (size_t i = 0; i < t->column_count; i++)
    rest[i] = cell(t, row + i);
  bool more = true;
  while (more) {
    more = false;
    for (size_t i = 0; i < t->column_count; i++) {
      print_line(&rest[i], widths[i], out);
      more = more || *rest[i] != '\0';
    }
    buffer_append_text(out, "|\n");
  }
}

// Narrows the widest columns until all fit.
static void narrow(const table *t, size_t width, size_t *widths)
{
  size_t frame = 3 * t->column_count + 1;
  size_t room = width > frame ? width - frame : 0;
  for (;;) {
    size_t sum = 0;
    size_t widest = 0;
    for (size_t i = 0; i < t->column_count; i++) {
      widths[i] = widths[i] > room && room > LEAST_WIDTH ? room : widths[i];
      sum += widths[i];
      widest = widths[i] >= widths[widest] ? i : widest; // names come first and stay longer
    }
    if (sum <= room || widths[widest] <= LEAST_WIDTH)
      return;
    widths[widest]--;
  }
}

void table_print(const table *t, size_t width, buffer *out)
{
  size_t widths[TABLE_MAX_COLUMNS] = {0};
  for (size_t i = 0; i < t->cell_count; i++) {
    size_t needed = width_of(cell(t, i));
    if (needed > widths[i % t->column_count])
      widths[i % t->column_count] = needed;
  }
  if (width > 0)
    narrow(t, width, widths);
  print_rule(t, widths, out);
  for (size_t i = 0; i < t->cell_count; i += t->column_count) {
    print_row(t, i, widths, out);
    if (i == 0)
      print_rule(t, widths, out);
  }
  print_rule(t, widths, out);
}
