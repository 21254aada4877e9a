// SPDX-License-Identifier: Apache-2.0
// Counts brackets and commas outside of strings.
#include "base/json_bounds.h"

// The position of the closing quote of the string that begins at `i`, or the text's size.
static size_t string_end(slice json, size_t i)
{
  while (i < json.size && json.data[i] != '"')
    i += json.data[i] == '\\' ? 2 : 1;
  return i;
}

error *json_bounds_check(slice json, size_t max_values)
{
  size_t depth = 0;
  size_t values = 1;
  for (size_t i = 0; i < json.size; i++) {
    char c = json.data[i];
    if (c == '"')
      i = string_end(json, i + 1);
    else if (c == '[' || c == '{')
      depth++;
    else if ((c == ']' || c == '}') && depth > 0)
      depth--;
    values += c == '[' || c == '{' || c == ',';
    if (depth > JSON_BOUNDS_DEPTH)
      return error_new(ERROR_INVALID_ARG, "JSON nesting depth exceeds maximum allowed limit (%d)",
                       JSON_BOUNDS_DEPTH);
    if (values > max_values)
      return error_new(ERROR_INVALID_ARG, "JSON has more than %zu values", max_values);
  }
  return NULL;
}
