// SPDX-License-Identifier: Apache-2.0
// Log lines of a backend, written through the server. The text is formatted only when the level is
// on. Any thread.
#ifndef NEREID_BACKEND_LOG_H
#define NEREID_BACKEND_LOG_H

#include "nereid/nereid.h"
#include "triton/core/tritonserver.h"

// Writes one line that names `file`:`line` and, unless `about` is NULL, its subject. Triton's
// server has no subjects: there the request's id stands before the text.
void backend_log(TRITONSERVER_LogLevel level, const char *file, int line,
                 const NEREID_LogSubject *about, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#ifndef __FILE_NAME__ // GCC before 12
#define __FILE_NAME__ __FILE__
#endif

#define BACKEND_LOG(level, about, ...)                                                             \
  do {                                                                                             \
    if (TRITONSERVER_LogIsEnabled(level))                                                          \
      backend_log(level, __FILE_NAME__, __LINE__, about, __VA_ARGS__);                             \
  } while (0)

#define BACKEND_LOG_INFO(...)               BACKEND_LOG(TRITONSERVER_LOG_INFO, NULL, __VA_ARGS__)
#define BACKEND_LOG_WARN(...)               BACKEND_LOG(TRITONSERVER_LOG_WARN, NULL, __VA_ARGS__)
#define BACKEND_LOG_ERROR(...)              BACKEND_LOG(TRITONSERVER_LOG_ERROR, NULL, __VA_ARGS__)
#define BACKEND_LOG_VERBOSE(...)            BACKEND_LOG(TRITONSERVER_LOG_VERBOSE, NULL, __VA_ARGS__)
#define BACKEND_LOG_INFO_ABOUT(about, ...)  BACKEND_LOG(TRITONSERVER_LOG_INFO, about, __VA_ARGS__)
#define BACKEND_LOG_ERROR_ABOUT(about, ...) BACKEND_LOG(TRITONSERVER_LOG_ERROR, about, __VA_ARGS__)

#endif
