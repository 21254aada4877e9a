// Log lines of a backend, written through the server. The text is made only when the level is on.
// Any thread.
#ifndef NEREID_BACKEND_LOG_H
#define NEREID_BACKEND_LOG_H

#include "triton/core/tritonserver.h"

// Writes one line that says it comes from `file`:`line`.
void backend_log(TRITONSERVER_LogLevel level, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#ifndef __FILE_NAME__ // GCC before 12
#define __FILE_NAME__ __FILE__
#endif

#define BACKEND_LOG(level, ...)                                                                    \
  do {                                                                                             \
    if (TRITONSERVER_LogIsEnabled(level))                                                          \
      backend_log(level, __FILE_NAME__, __LINE__, __VA_ARGS__);                                    \
  } while (0)

#define BACKEND_LOG_INFO(...)    BACKEND_LOG(TRITONSERVER_LOG_INFO, __VA_ARGS__)
#define BACKEND_LOG_WARN(...)    BACKEND_LOG(TRITONSERVER_LOG_WARN, __VA_ARGS__)
#define BACKEND_LOG_ERROR(...)   BACKEND_LOG(TRITONSERVER_LOG_ERROR, __VA_ARGS__)
#define BACKEND_LOG_VERBOSE(...) BACKEND_LOG(TRITONSERVER_LOG_VERBOSE, __VA_ARGS__)

#endif
