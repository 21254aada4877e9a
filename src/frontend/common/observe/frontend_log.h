// The front ends' lines in the server's log, through the north seam. Any thread.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_FRONTEND_LOG_H
#define NEREID_FRONTEND_COMMON_OBSERVE_FRONTEND_LOG_H

#include "nereid/nereid.h"
#include "triton/core/tritonserver.h"

#include <stdarg.h>

// `about` is the request that the line is about, or NULL. Lines of more than 2 KiB are cut.
void frontend_log_message_va(TRITONSERVER_LogLevel level, const char *file, int line,
                             const NEREID_LogSubject *about, const char *format, va_list arguments)
    __attribute__((format(printf, 5, 0)));
void frontend_log_message(TRITONSERVER_LogLevel level, const char *file, int line,
                          const NEREID_LogSubject *about, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// Logs `failure_owned` as "<what>: <message>" when it is an error, and releases it.
void frontend_log_failure(const NEREID_LogSubject *about, const char *what,
                          TRITONSERVER_Error *failure_owned);

#define FRONTEND_LOG_AT(level, about, ...)                                                         \
  do {                                                                                             \
    if (TRITONSERVER_LogIsEnabled(level))                                                          \
      frontend_log_message(level, __FILE_NAME__, __LINE__, about, __VA_ARGS__);                    \
  } while (0)
#define frontend_log_info(...)    FRONTEND_LOG_AT(TRITONSERVER_LOG_INFO, NULL, __VA_ARGS__)
#define frontend_log_warning(...) FRONTEND_LOG_AT(TRITONSERVER_LOG_WARN, NULL, __VA_ARGS__)
#define frontend_log_error(...)   FRONTEND_LOG_AT(TRITONSERVER_LOG_ERROR, NULL, __VA_ARGS__)
#define frontend_log_verbose(...) FRONTEND_LOG_AT(TRITONSERVER_LOG_VERBOSE, NULL, __VA_ARGS__)

#endif
