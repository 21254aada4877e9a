// The server's log, in Triton's formats. State lives once in libtritonserver.so; front ends and
// backends reach it through TRITONSERVER_LogMessage. Thread-safe. One call is one line and one
// write.
#ifndef NEREID_BASE_LOG_H
#define NEREID_BASE_LOG_H

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum log_level { // values of TRITONSERVER_LogLevel
  LOG_LEVEL_INFO = 0,
  LOG_LEVEL_WARNING = 1,
  LOG_LEVEL_ERROR = 2,
  LOG_LEVEL_VERBOSE = 3,
} log_level;

typedef enum log_format { // values of TRITONSERVER_LogFormat
  LOG_FORMAT_DEFAULT = 0,
  LOG_FORMAT_ISO8601 = 1,
} log_format;

void log_enable(log_level level, bool enabled); // INFO, WARNING, ERROR
void log_set_verbose(uint32_t level);           // 0 turns verbose lines off
void log_set_format(log_format format);
error *log_set_file(
    const char *path); // NULL or "": stdout and stderr. INVALID_ARG when the file cannot be opened

bool log_is_enabled(log_level level);
uint32_t log_verbose_level(void);
log_format log_get_format(void);

// Writes one line; `text` is quoted and its control characters are escaped, unless
// TRITON_SERVER_ESCAPE_LOG_MESSAGES=0.
void log_write(log_level level, const char *file, int line, slice text);
// Writes `table` unescaped below an empty message line: for the start-up tables only, never for
// text from outside.
void log_write_table(log_level level, const char *file, int line, slice table);

void log_format_message(log_level level, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#define LOG_AT(level, ...)                                                                         \
  do {                                                                                             \
    if (log_is_enabled(level))                                                                     \
      log_format_message(level, __FILE_NAME__, __LINE__, __VA_ARGS__);                             \
  } while (0)
#define log_info(...)    LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_warning(...) LOG_AT(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_error(...)   LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_verbose(level, ...)                                                                    \
  do {                                                                                             \
    if (log_verbose_level() >= (level))                                                            \
      log_format_message(LOG_LEVEL_VERBOSE, __FILE_NAME__, __LINE__, __VA_ARGS__);                 \
  } while (0)

#endif
