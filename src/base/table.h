// SPDX-License-Identifier: Apache-2.0
// Tables for people, drawn with '+', '-' and '|' as Triton draws them. One owner.
#ifndef NEREID_BASE_TABLE_H
#define NEREID_BASE_TABLE_H

#include "base/buffer.h"

#include <stddef.h>

#define TABLE_MAX_COLUMNS 8

typedef struct table {
  size_t column_count;
  char **cells; // row after row, the headings first; owned
  size_t cell_count;
  size_t cell_capacity;
} table;

// Begins with a row of headings. A row that does not fit into memory is left out.
void table_init(table *t, size_t column_count, const char *const *headings);
void table_fini(table *t);

// Adds a row of column_count texts; control characters in them become blanks, and bytes that are
// no UTF-8 question marks.
void table_add(table *t, const char *const *cells);

// Appends the table, each line ended by '\n' and at most `width` columns wide: cells that do not
// fit go on in the next line. Where even narrow columns do not fit, it is wider. 0: as wide as it
// is.
void table_print(const table *t, size_t width, buffer *out);

// Appends text that a terminal may be shown, on one line: control characters become blanks, and
// bytes that are no UTF-8 question marks.
void table_append_visible(buffer *out, slice text);

// The same of a text of several lines, whose ends stay.
void table_append_visible_lines(buffer *out, slice text);

// How many columns of a terminal the UTF-8 character of `size` bytes at `text` takes: 0, 1 or 2.
size_t table_character_width(const char *text, size_t size);

#endif
