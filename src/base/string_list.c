// SPDX-License-Identifier: Apache-2.0
// An ordered list of owned strings; for configuration and listings, not for the request path.
#include "base/string_list.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void string_list_fini(string_list *list)
{
  for (size_t i = 0; i < list->count; i++)
    free(list->items[i]);
  free(list->items);
  *list = (string_list){0};
}

static bool add_owned(string_list *list, char *text)
{
  if (text != NULL && list->count == list->capacity) {
    size_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
    char **items = reallocarray(list->items, capacity + 1, sizeof(*items));
    if (items != NULL) {
      list->items = items;
      list->capacity = capacity;
    }
  }
  if (text == NULL || list->count == list->capacity) {
    free(text);
    list->failed = true;
    return false;
  }
  list->items[list->count++] = text;
  list->items[list->count] = NULL;
  return true;
}

bool string_list_add(string_list *list, const char *text)
{
  return add_owned(list, strdup(text));
}

bool string_list_add_format(string_list *list, const char *format, ...)
{
  char *text;
  va_list values;
  va_start(values, format);
  int length = vasprintf(&text, format, values);
  va_end(values);
  return add_owned(list, length < 0 ? NULL : text);
}

bool string_list_contains(const string_list *list, const char *text)
{
  for (size_t i = 0; i < list->count; i++) {
    if (strcmp(list->items[i], text) == 0)
      return true;
  }
  return false;
}

static int compare_items(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void string_list_sort(string_list *list)
{
  if (list->count > 1)
    qsort(list->items, list->count, sizeof(*list->items), compare_items);
}
