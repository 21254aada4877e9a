// One rule, two texts. As in Triton the digits count, with blanks and a sign before them, and what
// follows them does not: "1.0" is 1.
#include "frontend/grpc/codec/model_version.h"

#include "base/text.h"

error *model_version_read(const char *text, int64_t *version)
{
  *version = -1;
  if (text[0] == '\0')
    return NULL;
  int64_t number;
  const char *rest;
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
