// SPDX-License-Identifier: Apache-2.0
// Error values. Every layer makes them and passes them on; an error has one holder at a time and
// may cross threads.
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct error {
  error_code code;
  uint64_t retry_ns;   // see error_set_retry
  const char *message; // points behind the struct, or at a literal for the shared error
};

static error out_of_memory = {ERROR_UNAVAILABLE, 0, "out of memory"};

static error *error_allocate(error_code code, size_t text_size, char **text)
{
  error *e = malloc(sizeof(*e) + text_size + 1);
  if (e == NULL)
    return NULL;
  *text = (char *)(e + 1);
  e->code = code;
  e->retry_ns = 0;
  e->message = *text;
  return e;
}

error *error_new_va(error_code code, const char *format, va_list arguments)
{
  va_list measure;
  va_copy(measure, arguments);
  int size = vsnprintf(NULL, 0, format, measure);
  va_end(measure);
  if (size < 0)
    return &out_of_memory;
  char *text;
  error *e = error_allocate(code, (size_t)size, &text);
  if (e == NULL)
    return &out_of_memory;
  vsnprintf(text, (size_t)size + 1, format, arguments);
  return e;
}

error *error_new(error_code code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  error *e = error_new_va(code, format, arguments);
  va_end(arguments);
  return e;
}

error *error_new_text(error_code code, const char *text)
{
  char *copy;
  size_t size = strlen(text);
  error *e = error_allocate(code, size, &copy);
  if (e == NULL)
    return &out_of_memory;
  memcpy(copy, text, size + 1);
  return e;
}

error *error_no_memory(void)
{
  return &out_of_memory;
}

error *error_wrap(error *cause_owned, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  error *context = error_new_va(cause_owned->code, format, arguments);
  va_end(arguments);
  if (context == &out_of_memory)
    return cause_owned;
  error *wrapped = error_new(cause_owned->code, "%s: %s", context->message, cause_owned->message);
  error_set_retry(wrapped, cause_owned->retry_ns);
  error_free(context);
  error_free(cause_owned);
  return wrapped;
}

error_code error_get_code(const error *e)
{
  return e->code;
}

const char *error_message(const error *e)
{
  return e->message;
}

void error_set_retry(error *e, uint64_t after_ns)
{
  if (e != &out_of_memory)
    e->retry_ns = after_ns;
}

uint64_t error_retry_ns(const error *e)
{
  return e->retry_ns;
}

void error_free(error *e)
{
  if (e != &out_of_memory)
    free(e);
}

const char *error_code_text(error_code code)
{
  static const char *const texts[] = {
      [ERROR_UNKNOWN] = "Unknown",
      [ERROR_INTERNAL] = "Internal",
      [ERROR_NOT_FOUND] = "Not found",
      [ERROR_INVALID_ARG] = "Invalid argument",
      [ERROR_UNAVAILABLE] = "Unavailable",
      [ERROR_UNSUPPORTED] = "Unsupported",
      [ERROR_ALREADY_EXISTS] = "Already exists",
      [ERROR_CANCELLED] = "Cancelled",
  };
  if ((size_t)code >= sizeof(texts) / sizeof(texts[0]))
    return "<invalid code>";
  return texts[code];
}
