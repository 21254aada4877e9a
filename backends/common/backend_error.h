// SPDX-License-Identifier: Apache-2.0
// Errors of a backend: TRITONSERVER_Error values made from a format, and either returned or logged.
// An error has one owner; NULL is success. Any thread.
#ifndef NEREID_BACKEND_ERROR_H
#define NEREID_BACKEND_ERROR_H

#include "base/error.h"
#include "triton/core/tritonbackend.h"

// Makes an error with a text of any length. Never returns NULL unless the server has no memory for
// an error object.
TRITONSERVER_Error *backend_error(TRITONSERVER_Error_Code code, const char *format, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result));

// The same with one of the usual codes.
#define backend_error_internal(...)    backend_error(TRITONSERVER_ERROR_INTERNAL, __VA_ARGS__)
#define backend_error_invalid(...)     backend_error(TRITONSERVER_ERROR_INVALID_ARG, __VA_ARGS__)
#define backend_error_unavailable(...) backend_error(TRITONSERVER_ERROR_UNAVAILABLE, __VA_ARGS__)

// UNAVAILABLE: the machine has no memory for `what`.
TRITONSERVER_Error *backend_error_no_memory(const char *what) __attribute__((warn_unused_result));

// The same error for the server; NULL stays NULL.
TRITONSERVER_Error *backend_error_of(error *error_owned) __attribute__((warn_unused_result));

// A copy of a framework's text on one line: each run of blanks and line breaks becomes one blank.
// For free(); NULL when memory is short.
char *backend_one_line(const char *text);

// Ends an error that cannot be passed on: logs "failed to <doing>: <text>" and deletes it.
// NULL does nothing.
void backend_error_log(TRITONSERVER_Error *error_owned, const char *doing);
// The same, naming `instance` and its request (or NULL) in the log.
void backend_request_error_log(TRITONBACKEND_ModelInstance *instance,
                               TRITONBACKEND_Request *request, TRITONSERVER_Error *error_owned,
                               const char *doing);

// Refuses a server whose backend API has another major version or is older than `minor_needed`, the
// smallest minor with every function that the backend needs. `name` is the backend's.
TRITONSERVER_Error *backend_check_api(const char *name, uint32_t minor_needed);

// Runs `expression`; if it gives an error, returns it from the enclosing function.
#define BACKEND_RETURN_IF_ERROR(expression)                                                        \
  do {                                                                                             \
    TRITONSERVER_Error *return_if_error_ = (expression);                                           \
    if (return_if_error_ != NULL)                                                                  \
      return return_if_error_;                                                                     \
  } while (0)

#endif
