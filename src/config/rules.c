// SPDX-License-Identifier: Apache-2.0
// The functions by which rules report.
#include "config/rules.h"

#include "base/buffer.h"

#include <stdio.h>

phrase say(const char *format, ...)
{
  phrase said;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(said.text, sizeof(said.text), format, arguments);
  va_end(arguments);
  return said;
}

bool rules_repeats(rules *r, string_map *seen, const char *name)
{
  if (string_map_get(seen, slice_of(name)) != NULL)
    return true;
  if (!string_map_put(seen, slice_of(name), seen))
    r->found->failed = true;
  return false;
}

static void report(rules *r, diagnostic *d, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

static void report(rules *r, diagnostic *d, const char *format, va_list arguments)
{
  if (r->first_only && (r->found->errors > 0 || d->severity != DIAGNOSTIC_ERROR))
    return;
  AUTO_BUFFER buffer message = BUFFER_EMPTY;
  buffer_append_va(&message, format, arguments);
  buffer_append_char(&message, '\0');
  if (message.failed) {
    r->found->failed = true;
    return;
  }
  d->message = message.data;
  d->place = source_map_find(r->source, d->path);
  diagnostics_add(r->found, d);
}

void refuse_as(rules *r, error_code code, const char *path, const char *fix, const char *format,
               ...)
{
  diagnostic d = {
      .severity = DIAGNOSTIC_ERROR, .code = code, .path = (char *)path, .fix = (char *)fix};
  va_list arguments;
  va_start(arguments, format);
  report(r, &d, format, arguments);
  va_end(arguments);
}

void refuse(rules *r, const char *path, const char *fix, const char *format, ...)
{
  diagnostic d = {.severity = DIAGNOSTIC_ERROR,
                  .code = ERROR_INVALID_ARG,
                  .path = (char *)path,
                  .fix = (char *)fix};
  va_list arguments;
  va_start(arguments, format);
  report(r, &d, format, arguments);
  va_end(arguments);
}

void rules_warn(rules *r, const char *path, const char *fix, const char *format, ...)
{
  diagnostic d = {.severity = DIAGNOSTIC_WARNING, .path = (char *)path, .fix = (char *)fix};
  va_list arguments;
  va_start(arguments, format);
  report(r, &d, format, arguments);
  va_end(arguments);
}
