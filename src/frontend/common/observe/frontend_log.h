// SPDX-License-Identifier: Apache-2.0
// Writes the front ends' log lines, through the north seam. Any thread.
#ifndef NEREID_FRONTEND_COMMON_OBSERVE_FRONTEND_LOG_H
#define NEREID_FRONTEND_COMMON_OBSERVE_FRONTEND_LOG_H

#include "base/buffer.h"
#include "nereid/nereid.h"
#include "triton/core/tritonserver.h"

// `about` is the line's request, or NULL. Lines of more than 2 KiB are cut.
void frontend_log_message(TRITONSERVER_LogLevel level, const char *file, int line,
                          const NEREID_LogSubject *about, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

// Logs `failure_owned`, unless NULL, as "<what>: <message>" and releases it.
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

// Unknown settings in a request, which the log names; the request succeeds, as Triton's does.
// Begins as {0}; one thread at a time.
typedef struct ignored_settings {
  buffer names;
  size_t count;
} ignored_settings;

void ignored_settings_add(ignored_settings *ignored, const char *name);
// Logs all of them in one warning, and releases the memory of `ignored`; `what` describes the
// request.
void ignored_settings_warn(ignored_settings *ignored, const char *what);

#endif
