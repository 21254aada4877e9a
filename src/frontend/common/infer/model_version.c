// SPDX-License-Identifier: Apache-2.0
// As in Triton, blanks and a sign may precede the digits, and what follows them is ignored: "1.0"
// is 1. A text that begins with a letter or '_' is a label.
#include "frontend/common/infer/model_version.h"

#include "base/text.h"
#include "frontend/common/observe/abi_error.h"
#include "nereid/nereid.h"

static bool begins_label(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

error *model_version_read(TRITONSERVER_Server *server, const char *model, const char *text,
                          int64_t *version)
{
  *version = -1;
  if (text[0] == '\0')
    return NULL;
  int64_t number;
  const char *rest;
  if (begins_label(text[0]))
    return error_from_abi(NEREID_ServerVersionOfLabel(server, model, text, version));
  if (!text_begins_int64(text, &number, &rest))
    return error_new(ERROR_INVALID_ARG,
                     "failed to get model version from specified version string '%.100s' (details: "
                     "stol), version should be an integral value > 0",
                     text);
  if (number < 0)
    return error_new(ERROR_INVALID_ARG,
                     "invalid model version specified '%s' , version should be an integral value "
                     "> 0",
                     text);
  *version = number;
  return NULL;
}
