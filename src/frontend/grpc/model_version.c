// One rule, two texts.
#include "frontend/grpc/model_version.h"

#include "base/text.h"

error *model_version_read(const char *text, int64_t *version)
{
  *version = -1;
  if (text[0] == '\0')
    return NULL;
  if (!text_to_int64(slice_of(text), version))
    return error_new(ERROR_INVALID_ARG,
                     "failed to get model version from specified version string '%.100s' (details: "
                     "stol), version should be an integral value > 0",
                     text);
  if (*version < 0)
    return error_new(ERROR_INVALID_ARG,
                     "invalid model version specified '%s' , version should be an integral value "
                     "> 0",
                     text);
  return NULL;
}
