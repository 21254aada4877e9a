// SPDX-License-Identifier: Apache-2.0
// Errors as values: a code that maps one to one onto TRITONSERVER_Error_Code, and a text, made
// where the cause is known. NULL is success. An error has one owner, who releases it once: with
// error_free or by passing it on.
#ifndef NEREID_BASE_ERROR_H
#define NEREID_BASE_ERROR_H

#include <stdarg.h>
#include <stdint.h>

typedef enum error_code {
  ERROR_UNKNOWN = 0,
  ERROR_INTERNAL = 1,
  ERROR_NOT_FOUND = 2,
  ERROR_INVALID_ARG = 3,
  ERROR_UNAVAILABLE = 4,
  ERROR_UNSUPPORTED = 5,
  ERROR_ALREADY_EXISTS = 6,
  ERROR_CANCELLED = 7,
} error_code;

typedef struct error error;

// Makes an error. Never returns NULL: when memory is short it returns a shared error that says so.
error *error_new(error_code code, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));
error *error_new_va(error_code code, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));
// The text as it is, without the cost of a format.
error *error_new_text(error_code code, const char *text) __attribute__((warn_unused_result));

// The shared "out of memory" error (UNAVAILABLE). Needs no memory; error_free on it does nothing.
error *error_no_memory(void) __attribute__((warn_unused_result));

// Puts context before the text of `cause_owned`: "<context>: <cause>". The code stays.
error *error_wrap(error *cause_owned, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));

// How long to wait before another attempt, in ns; 0: unknown.
void error_set_retry(error *e, uint64_t after_ns);
uint64_t error_retry_ns(const error *e);

error_code error_get_code(const error *e);
const char *error_message(const error *e); // valid as long as the error
void error_free(error *e);                 // NULL is allowed

// "Invalid argument", "Not found", … as Triton prints a code in its log and tables.
const char *error_code_text(error_code code);

// Runs `expression`; if it gives an error, returns it from the enclosing function.
#define RETURN_IF_ERROR(expression)                                                                \
  do {                                                                                             \
    error *return_if_error_ = (expression);                                                        \
    if (return_if_error_ != NULL)                                                                  \
      return return_if_error_;                                                                     \
  } while (0)

static inline void cleanup_error(error **e)
{
  error_free(*e);
}
#define AUTO_ERROR __attribute__((cleanup(cleanup_error)))

#endif
