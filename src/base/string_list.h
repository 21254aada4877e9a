// SPDX-License-Identifier: Apache-2.0
// An ordered list of owned strings; `items` can serve as an argument vector.
#ifndef NEREID_BASE_STRING_LIST_H
#define NEREID_BASE_STRING_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct string_list {
  char **items; // each owned by the list; NULL follows the last, unless nothing was ever added
  size_t count;
  size_t capacity;
  bool failed; // memory was short during an addition
} string_list;

void string_list_fini(string_list *list);
bool string_list_add(string_list *list, const char *text); // copies; false when memory is short
bool string_list_add_format(string_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool string_list_contains(const string_list *list, const char *text);
void string_list_sort(string_list *list); // byte order

#endif
