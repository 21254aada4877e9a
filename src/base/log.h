// SPDX-License-Identifier: Apache-2.0
// The server's log, in Triton's formats. State lives once in libtritonserver.so; front ends and
// backends reach it through TRITONSERVER_LogMessage. Thread-safe. One call writes one line with one
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
  LOG_FORMAT_JSON = 2, // NEREID_LOG_JSON: one object a line
} log_format;

#define LOG_PATH_BYTES 4096 // of a log file's path, with its end

// The subject of a line. JSON has a key for each member. The text formats put request, model and
// instance before the text if there is a request.
typedef struct log_subject {
  const char *request_id; // "": none given; NULL: not about one request; cut after 256 bytes
  const char *model;      // NULL: unknown
  int64_t version;        // 0: unknown
  const char *instance;   // NULL: unknown
  bool keys_only;         // the text formats leave it out
} log_subject;

void log_enable(log_level level, bool enabled); // INFO, WARNING, ERROR
void log_set_verbose(uint32_t level);           // 0 turns verbose lines off
void log_set_format(log_format format);
// Opens `path` and closes the open file, so that giving the same path again starts a new file after
// a rotation. NULL or "": stdout and stderr. INVALID_ARG when the file cannot be opened: nothing
// changes then.
error *log_set_file(const char *path);

bool log_is_enabled(log_level level);
uint32_t log_verbose_level(void);
log_format log_get_format(void);
void log_get_file(char path[LOG_PATH_BYTES]); // "": stdout and stderr
uint64_t log_dropped_lines(void);             // lost to a full disk or pipe

// Writes one line. `text` is quoted and its control characters are escaped, unless
// TRITON_SERVER_ESCAPE_LOG_MESSAGES=0; JSON always escapes. `subject` may be NULL.
void log_write(log_level level, const char *file, int line, const log_subject *subject, slice text);
// Writes `table` unescaped below an empty message line. In JSON it is the message. For the start-up
// tables only, never for text from outside.
void log_write_table(log_level level, const char *file, int line, slice table);

// The width for tables: the terminal's if the log goes to one, else COLUMNS, both within 80 to 200;
// else 120.
size_t log_table_width(void);

void log_format_message(log_level level, const char *file, int line, const log_subject *subject,
                        const char *format, ...) __attribute__((format(printf, 5, 6)));

#define LOG_AT(level, subject, ...)                                                                \
  do {                                                                                             \
    if (log_is_enabled(level))                                                                     \
      log_format_message(level, __FILE_NAME__, __LINE__, subject, __VA_ARGS__);                    \
  } while (0)
#define log_info(...)                   LOG_AT(LOG_LEVEL_INFO, NULL, __VA_ARGS__)
#define log_warning(...)                LOG_AT(LOG_LEVEL_WARNING, NULL, __VA_ARGS__)
#define log_error(...)                  LOG_AT(LOG_LEVEL_ERROR, NULL, __VA_ARGS__)
#define log_warning_about(subject, ...) LOG_AT(LOG_LEVEL_WARNING, subject, __VA_ARGS__)
#define log_error_about(subject, ...)   LOG_AT(LOG_LEVEL_ERROR, subject, __VA_ARGS__)
#define log_verbose(level, ...)                                                                    \
  do {                                                                                             \
    if (log_verbose_level() >= (level))                                                            \
      log_format_message(LOG_LEVEL_VERBOSE, __FILE_NAME__, __LINE__, NULL, __VA_ARGS__);           \
  } while (0)

#endif
