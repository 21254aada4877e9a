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

// Begins with a row of headings. A row is left out when memory is short.
void table_init(table *t, size_t column_count, const char *const *headings);
void table_fini(table *t);

// Adds a row of column_count texts. Control characters become blanks, bytes that are not UTF-8
// question marks.
void table_add(table *t, const char *const *cells);

// Appends the table. Lines end with '\n' and are at most `width` columns wide: longer cells
// continue on the next line. It is wider if even the narrowest columns do not fit. 0: no limit.
void table_print(const table *t, size_t width, buffer *out);

// Appends text safe for a terminal, on one line: control characters become blanks, bytes that are
// not UTF-8 question marks.
void table_append_visible(buffer *out, slice text);

// The same, but line ends stay.
void table_append_visible_lines(buffer *out, slice text);

// The columns (0, 1 or 2) that a terminal needs for the UTF-8 character of `size` bytes at `text`.
size_t table_character_width(const char *text, size_t size);

#endif
