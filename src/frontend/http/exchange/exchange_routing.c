// SPDX-License-Identifier: Apache-2.0
// Finds the row of a path in the route table. Loop threads, before a request's body is read.
#include "frontend/http/exchange/exchange_routing.h"

#include "base/text.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

static const struct {
  slice name; // as in a row's path
  route_parameter parameter;
} placeholders[] = {
    {{"{model}", 7}, PARAMETER_MODEL},
    {{"{version}", 9}, PARAMETER_VERSION},
    {{"{repository}", 12}, PARAMETER_REPOSITORY},
    {{"{region}", 8}, PARAMETER_REGION},
};

unsigned route_method_of(const char *name)
{
  if (strcmp(name, "POST") == 0)
    return METHOD_POST;
  if (strcmp(name, "GET") == 0 || strcmp(name, "HEAD") == 0)
    return METHOD_GET;
  return 0;
}

slice route_authority_of(const char *target)
{
  static const char *const schemes[] = {"http://", "https://"};
  for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
    size_t size = strlen(schemes[i]);
    if (strncasecmp(target, schemes[i], size) == 0)
      return (slice){target + size, strcspn(target + size, "/")};
  }
  return (slice){target, 0};
}

slice route_path_of(const char *target)
{
  const slice authority = route_authority_of(target);
  return slice_of(authority.data + authority.size);
}

// Takes the first segment of `rest`, which begins with '/'.
static slice take_segment(slice *rest)
{
  const char *start = rest->data + 1;
  size_t left = rest->size - 1;
  const char *end = memchr(start, '/', left);
  size_t size = end == NULL ? left : (size_t)(end - start);
  *rest = (slice){start + size, left - size};
  return (slice){start, size};
}

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static bool is_label_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Decimal digits, or a possible label.
static bool is_version(slice text)
{
  bool label = text.size > 0 && is_label_char(text.data[0]);
  for (size_t i = 0; i < text.size; i++) {
    char c = text.data[i];
    if (!is_digit(c) && !(label && (is_label_char(c) || c == '-' || c == '.')))
      return false;
  }
  return text.size > 0;
}

static bool take_parameter(slice pattern, slice segment, slice parameters[PARAMETER_COUNT])
{
  for (size_t i = 0; i < sizeof(placeholders) / sizeof(placeholders[0]); i++) {
    if (!slice_equal(pattern, placeholders[i].name))
      continue;
    if (segment.size == 0)
      return false;
    if (placeholders[i].parameter == PARAMETER_VERSION && !is_version(segment))
      return false;
    parameters[placeholders[i].parameter] = segment;
    return true;
  }
  return false;
}

static bool matches(const char *pattern_text, slice path, slice parameters[PARAMETER_COUNT])
{
  slice pattern = slice_of(pattern_text);
  if (slice_equal(pattern, SLICE("*")))
    return true;
  memset(parameters, 0, PARAMETER_COUNT * sizeof(slice));
  while (pattern.size > 0 && path.size > 0) {
    if (path.data[0] != '/')
      return false;
    slice expected = take_segment(&pattern);
    slice segment = take_segment(&path);
    bool varies = expected.data[0] == '{';
    if (varies ? !take_parameter(expected, segment, parameters) : !slice_equal(expected, segment))
      return false;
  }
  return pattern.size == 0 && path.size == 0;
}

route_match route_find(const route_table *table, unsigned method, slice path)
{
  route_match match = {0};
  const char *matched = NULL; // the first row's that matches; rows with other paths are skipped
  for (size_t i = 0; i < table->count; i++) {
    if (matched != NULL && strcmp(matched, table->rows[i].path) != 0)
      continue;
    if (matched == NULL && !matches(table->rows[i].path, path, match.parameters))
      continue;
    matched = table->rows[i].path;
    match.methods |= table->rows[i].methods;
    match.category = table->rows[i].category;
    if (match.route == NULL && (table->rows[i].methods & method) != 0)
      match.route = &table->rows[i];
    if (match.route != NULL)
      break;
  }
  return match;
}

bool route_decode(slice from, char *to)
{
  for (size_t i = 0; i < from.size; i++) {
    if (from.data[i] != '%') {
      *to++ = from.data[i];
      continue;
    }
    int high = i + 1 < from.size ? text_hex_digit(from.data[i + 1]) : -1;
    int low = i + 2 < from.size ? text_hex_digit(from.data[i + 2]) : -1;
    if (high < 0 || low < 0)
      return false;
    int c = high * 16 + low;
    if (c < 0x20 || c == 0x7f || c == '/')
      return false;
    *to++ = (char)c;
    i += 2;
  }
  *to = '\0';
  return true;
}
