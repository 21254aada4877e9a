// Reads the model version of a path. Loop threads.
#include "frontend/http/exchange/version.h"

#include "base/text.h"
#include "frontend/http/exchange/exchange.h"

bool version_of(exchange *x, int64_t *version)
{
  const char *text = x->parameters[PARAMETER_VERSION];
  *version = -1;
  if (text[0] == '\0' || text_to_int64(slice_of(text), version))
    return true;
  exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                "failed to get model version from specified version string '%s' (details: "
                "stol), version should be an integral value > 0",
                text);
  return false;
}
