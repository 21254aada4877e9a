// SPDX-License-Identifier: Apache-2.0
// The list of findings about a configuration. Called from load threads and by `nereid check`.
#include "config/diagnostics.h"

#include "base/buffer.h"
#include "base/text.h"

#include <stdlib.h>

static void diagnostic_fini(diagnostic *d)
{
  free(d->message);
  free(d->path);
  free(d->fix);
}

void diagnostics_fini(diagnostics *list)
{
  for (size_t i = 0; i < list->count; i++)
    diagnostic_fini(&list->items[i]);
  free(list->items);
  *list = DIAGNOSTICS_EMPTY;
}

static bool make_room(diagnostics *list)
{
  if (list->count < list->capacity)
    return true;
  size_t capacity = list->capacity == 0 ? 4 : list->capacity * 2; // DIAGNOSTICS_MAX bounds it
  diagnostic *items = reallocarray(list->items, capacity, sizeof(*items));
  if (items == NULL)
    return false;
  list->items = items;
  list->capacity = capacity;
  return true;
}

void diagnostics_add(diagnostics *list, const diagnostic *d)
{
  list->errors += d->severity == DIAGNOSTIC_ERROR;
  if (diagnostics_are_full(list)) {
    list->left_out++;
    return;
  }
  diagnostic copy = *d;
  copy.message = text_copy(slice_of(d->message));
  copy.path = text_copy(slice_of(d->path));
  copy.fix = d->fix != NULL ? text_copy(slice_of(d->fix)) : NULL;
  bool copied = copy.message != NULL && copy.path != NULL && (copy.fix != NULL || d->fix == NULL);
  if (copied && make_room(list)) {
    list->bytes += strlen(copy.message) + strlen(copy.path);
    list->items[list->count++] = copy;
    return;
  }
  diagnostic_fini(&copy);
  list->failed = true;
}

void diagnostics_add_error(diagnostics *list, error *e_owned, const char *path, source_place place)
{
  diagnostics_add(list, &(diagnostic){.severity = DIAGNOSTIC_ERROR,
                                      .code = error_get_code(e_owned),
                                      .message = (char *)error_message(e_owned),
                                      .path = (char *)path,
                                      .place = place});
  error_free(e_owned);
}

// ---- order ----

// Findings without a place sort last.
static unsigned line_of(const diagnostic *d)
{
  return d->place.line - 1; // 0 becomes UINT_MAX
}

static bool stands_before(const diagnostic *a, const diagnostic *b)
{
  return line_of(a) != line_of(b) ? line_of(a) < line_of(b) : a->place.column < b->place.column;
}

// A stable insertion sort: findings at the same place keep their order.
void diagnostics_sort(diagnostics *list)
{
  for (size_t i = 1; i < list->count; i++) {
    diagnostic moved = list->items[i];
    size_t to = i;
    for (; to > 0 && stands_before(&moved, &list->items[to - 1]); to--)
      list->items[to] = list->items[to - 1];
    list->items[to] = moved;
  }
}

// ---- as an error ----

static const diagnostic *first_error(const diagnostics *list)
{
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i].severity == DIAGNOSTIC_ERROR)
      return &list->items[i];
  }
  return NULL;
}

// "at config.pbtxt:3:7, input[0].dims: give the dimensions", without unknown parts.
static void print_where(buffer *out, const diagnostic *d, const char *file_name)
{
  const char *before = "at ";
  if (d->place.line > 0 && file_name != NULL) {
    buffer_append_format(out, "%s%s:%u:%u", before, file_name, d->place.line, d->place.column);
    before = ", ";
  }
  if (d->path[0] != '\0') {
    buffer_append_format(out, "%s%s", before, d->path);
    before = "";
  }
  if (d->fix != NULL)
    buffer_append_format(out, "%s%s", before[0] == 'a' ? "" : ": ", d->fix);
}

error *diagnostics_first_error(const diagnostics *list, const char *file_name)
{
  if (list->failed)
    return error_no_memory();
  const diagnostic *d = first_error(list);
  if (d == NULL)
    return NULL;
  AUTO_BUFFER buffer where = BUFFER_EMPTY;
  print_where(&where, d, file_name);
  buffer_append_char(&where, '\0');
  if (where.failed || where.size == 1)
    return error_new(d->code, "%s", d->message);
  return error_new(d->code, "%s\n  %s", d->message, where.data);
}
