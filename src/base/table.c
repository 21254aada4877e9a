// Drawing of tables.
#include "base/table.h"

#include <stdlib.h>
#include <string.h>

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

static char *copy_cell(const char *text)
{
  char *copy = strdup(text);
  for (char *c = copy; c != NULL && *c != '\0'; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f)
      *c = ' ';
  return copy;
}

void table_add(table *t, const char *const *cells)
{
  if (t->column_count > t->cell_capacity - t->cell_count) {
    size_t capacity = 2 * t->cell_capacity + 8 * t->column_count;
    char **grown = reallocarray(t->cells, capacity, sizeof(char *));
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

void table_print(const table *t, buffer *out)
{
  size_t widths[TABLE_MAX_COLUMNS] = {0};
  for (size_t i = 0; i < t->cell_count; i++) {
    size_t width = strlen(cell(t, i));
    if (width > widths[i % t->column_count])
      widths[i % t->column_count] = width;
  }
  print_rule(t, widths, out);
  for (size_t i = 0; i < t->cell_count; i++) {
    size_t column = i % t->column_count;
    buffer_append_text(out, "| ");
    buffer_append_text(out, cell(t, i));
    append_repeated(out, ' ', widths[column] - strlen(cell(t, i)) + 1);
    if (column + 1 < t->column_count)
      continue;
    buffer_append_text(out, "|\n");
    if (i < t->column_count)
      print_rule(t, widths, out);
  }
  print_rule(t, widths, out);
}
