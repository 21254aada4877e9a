// SPDX-License-Identifier: Apache-2.0
// Makes, logs and converts errors.
#include "backend_error.h"

#include "backend_log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TRITONSERVER_Error *backend_error(TRITONSERVER_Error_Code code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  char *text = NULL;
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0)
    return TRITONSERVER_ErrorNew(code, format);
  TRITONSERVER_Error *error = TRITONSERVER_ErrorNew(code, text);
  free(text);
  return error;
}

// The codes of both types are equal.
TRITONSERVER_Error *backend_error_of(error *error_owned)
{
  if (error_owned == NULL)
    return NULL;
  TRITONSERVER_Error *made = TRITONSERVER_ErrorNew(
      (TRITONSERVER_Error_Code)error_get_code(error_owned), error_message(error_owned));
  error_free(error_owned);
  return made;
}

char *backend_one_line(const char *text)
{
  char *line = malloc(strlen(text) + 1), *end = line;
  if (line == NULL)
    return NULL;
  for (; *text != '\0'; text++) {
    const bool blank = *text == ' ' || *text == '\n' || *text == '\t' || *text == '\r';
    if (!blank)
      *end++ = *text;
    else if (end != line && end[-1] != ' ')
      *end++ = ' ';
  }
  while (end != line && end[-1] == ' ')
    end--;
  *end = '\0';
  return line;
}

TRITONSERVER_Error *backend_error_no_memory(const char *what)
{
  return backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "no memory for %s", what);
}

void backend_error_log(TRITONSERVER_Error *error_owned, const char *doing)
{
  if (error_owned == NULL)
    return;
  BACKEND_LOG_ERROR("failed to %s: %s", doing, TRITONSERVER_ErrorMessage(error_owned));
  TRITONSERVER_ErrorDelete(error_owned);
}

// A value that the server cannot give stays empty.
static NEREID_LogSubject subject_of(TRITONBACKEND_ModelInstance *instance,
                                    TRITONBACKEND_Request *request)
{
  NEREID_LogSubject about = {0};
  TRITONBACKEND_Model *model = NULL;
  uint64_t version = 0;
  TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceName(instance, &about.instance));
  TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceModel(instance, &model));
  if (model != NULL) {
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelName(model, &about.model));
    TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelVersion(model, &version));
  }
  about.version = (int64_t)version;
  if (request != NULL)
    TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestId(request, &about.request_id));
  return about;
}

void backend_request_error_log(TRITONBACKEND_ModelInstance *instance,
                               TRITONBACKEND_Request *request, TRITONSERVER_Error *error_owned,
                               const char *doing)
{
  if (error_owned == NULL)
    return;
  const NEREID_LogSubject about = subject_of(instance, request);
  BACKEND_LOG_ERROR_ABOUT(&about, "failed to %s: %s", doing,
                          TRITONSERVER_ErrorMessage(error_owned));
  TRITONSERVER_ErrorDelete(error_owned);
}

TRITONSERVER_Error *backend_check_api(const char *name, uint32_t minor_needed)
{
  uint32_t major = 0, minor = 0;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ApiVersion(&major, &minor));
  if (major == TRITONBACKEND_API_VERSION_MAJOR && minor >= minor_needed)
    return NULL;
  return backend_error(TRITONSERVER_ERROR_UNSUPPORTED,
                       "Triton TRITONBACKEND API version: %u.%u does not support '%s' "
                       "TRITONBACKEND API version: %d.%u",
                       major, minor, name, TRITONBACKEND_API_VERSION_MAJOR, minor_needed);
}
