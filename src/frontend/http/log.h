// The front end's lines in the server's log. Any thread.
#ifndef NEREID_FRONTEND_HTTP_LOG_H
#define NEREID_FRONTEND_HTTP_LOG_H

#include "triton/core/tritonserver.h"

void http_log_message(TRITONSERVER_LogLevel level, const char *file, int line, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

// Logs `failure_owned` as "<what>: <message>" when it is an error, and releases it.
void http_log_failure(const char *what, TRITONSERVER_Error *failure_owned);

#define HTTP_LOG_AT(level, ...)                                                                    \
  do {                                                                                             \
    if (TRITONSERVER_LogIsEnabled(level))                                                          \
      http_log_message(level, __FILE_NAME__, __LINE__, __VA_ARGS__);                               \
  } while (0)
#define http_log_info(...)    HTTP_LOG_AT(TRITONSERVER_LOG_INFO, __VA_ARGS__)
#define http_log_warning(...) HTTP_LOG_AT(TRITONSERVER_LOG_WARN, __VA_ARGS__)
#define http_log_error(...)   HTTP_LOG_AT(TRITONSERVER_LOG_ERROR, __VA_ARGS__)
#define http_log_verbose(...) HTTP_LOG_AT(TRITONSERVER_LOG_VERBOSE, __VA_ARGS__)

#endif
