// SPDX-License-Identifier: Apache-2.0
// Prints reports the way compilers do.
#include "daemon/check_print.h"

#include "base/table.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define MOST_COMMENT_COLUMN 60

#define BOLD    "\033[1m"
#define RED     "\033[1;31m"
#define MAGENTA "\033[1;35m"
#define GREEN   "\033[1;32m"
#define GREY    "\033[2m"
#define PLAIN   "\033[0m"

static const char *member(const json_t *object, const char *name)
{
  return json_string_value(json_object_get(object, name));
}

static json_int_t number(const json_t *object, const char *name)
{
  return json_integer_value(json_object_get(object, name));
}

static void append_coloured(buffer *out, const char *colour, const char *text)
{
  buffer_append_text(out, colour != NULL ? colour : "");
  table_append_visible(out, slice_of(text));
  buffer_append_text(out, colour != NULL ? PLAIN : "");
}

// ---- problems ----

static void print_place(const json_t *problem, bool coloured, buffer *out)
{
  const char *file = member(problem, "file");
  json_int_t line = number(problem, "line");
  append_coloured(out, coloured ? BOLD : NULL, file != NULL ? file : "");
  if (line > 0)
    buffer_append_format(out, ":%" JSON_INTEGER_FORMAT ":%" JSON_INTEGER_FORMAT, line,
                         number(problem, "column"));
  buffer_append_text(out, ": ");
}

static void print_excerpt(const json_t *problem, bool coloured, buffer *out)
{
  const char *source = member(problem, "source");
  const char *caret = member(problem, "caret");
  if (source == NULL || caret == NULL)
    return;
  buffer_append_format(out, "%5" JSON_INTEGER_FORMAT " | ", number(problem, "line"));
  table_append_visible(out, slice_of(source));
  buffer_append_text(out, "\n      | ");
  append_coloured(out, coloured ? GREEN : NULL, caret);
  buffer_append_char(out, '\n');
}

// A line below the excerpt.
static void print_more(const json_t *problem, const char *name, const char *label, buffer *out)
{
  const char *text = member(problem, name);
  if (text == NULL)
    return;
  buffer_append_format(out, "      %s: ", label);
  table_append_visible(out, slice_of(text));
  buffer_append_char(out, '\n');
}

static void print_problem(const json_t *problem, bool coloured, buffer *out)
{
  const char *severity = member(problem, "severity");
  const char *message = member(problem, "message");
  bool is_error = severity != NULL && strcmp(severity, "error") == 0;
  const char *colour = is_error ? RED : MAGENTA;
  print_place(problem, coloured, out);
  append_coloured(out, coloured ? colour : NULL, is_error ? "error:" : "warning:");
  buffer_append_char(out, ' ');
  append_coloured(out, coloured ? BOLD : NULL, message != NULL ? message : "");
  buffer_append_char(out, '\n');
  print_excerpt(problem, coloured, out);
  print_more(problem, "note", "note", out);
  print_more(problem, "fix", "fix", out);
}

static void print_count(json_int_t count, const char *what, buffer *out)
{
  buffer_append_format(out, "%" JSON_INTEGER_FORMAT " %s%s", count, what, count == 1 ? "" : "s");
}

bool check_print_report(slice json, bool strict, bool coloured, buffer *out)
{
  size_t i;
  json_t *problem;
  json_t *root = json_loadb(json.data, json.size, 0, NULL);
  json_array_foreach(json_object_get(root, "problems"), i, problem)
  {
    print_problem(problem, coloured, out);
  }
  json_int_t errors = number(root, "errors");
  json_int_t warnings = number(root, "warnings");
  print_count(number(root, "models"), "model", out);
  buffer_append_text(out, " checked: ");
  if (errors == 0 && warnings == 0)
    buffer_append_text(out, "no problems");
  if (errors > 0)
    print_count(errors, "error", out);
  if (errors > 0 && warnings > 0)
    buffer_append_text(out, ", ");
  if (warnings > 0)
    print_count(warnings, "warning", out);
  buffer_append_char(out, '\n');
  bool well = root != NULL && errors == 0 && (!strict || warnings == 0);
  json_decref(root);
  return well;
}

// ---- configurations ----

static size_t width_of(const char *text)
{
  return text != NULL ? strlen(text) : 0;
}

static size_t comment_column(const json_t *lines)
{
  size_t i, column = 0;
  json_t *line;
  json_array_foreach(lines, i, line)
  {
    size_t width = width_of(member(line, "text"));
    if (member(line, "from") != NULL && width > column && width <= MOST_COMMENT_COLUMN)
      column = width;
  }
  return column + 2;
}

static void print_line(const json_t *line, const char *file, size_t column, bool coloured,
                       buffer *out)
{
  const char *text = member(line, "text");
  const char *from = member(line, "from");
  table_append_visible(out, slice_of(text != NULL ? text : ""));
  if (from != NULL) {
    for (size_t width = width_of(text); width < column || width == width_of(text); width++)
      buffer_append_char(out, ' ');
    buffer_append_text(out, coloured ? GREY : "");
    if (strcmp(from, "file") == 0)
      buffer_append_format(out, "# %s:%" JSON_INTEGER_FORMAT, file, number(line, "line"));
    else
      buffer_append_format(out, "# %s", from);
    buffer_append_text(out, coloured ? PLAIN : "");
  }
  buffer_append_char(out, '\n');
}

bool check_print_config(slice json, bool coloured, buffer *out)
{
  size_t i;
  json_t *line;
  json_t *root = json_loadb(json.data, json.size, 0, NULL);
  const json_t *lines = json_object_get(root, "lines");
  const char *file = member(root, "file");
  size_t column = comment_column(lines);
  json_array_foreach(lines, i, line)
  {
    print_line(line, file != NULL ? file : "", column, coloured, out);
  }
  json_decref(root);
  return lines != NULL;
}
