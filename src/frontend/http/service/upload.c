// Who may bring code (docs/security.md); what is code, frontend/common/policy tells.
#include "frontend/http/service/upload.h"

#include "base/text.h"
#include "frontend/common/policy/code_upload.h"
#include "frontend/http/exchange/access.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/server.h"

#include <string.h>

static bool admit_config(exchange *x, slice text)
{
  const char *field;
  char what[CODE_UPLOAD_TEXT_BYTES];
  if (exchange_fail_if_error(
          x, code_upload_find(x->http->server, x->parameters[PARAMETER_MODEL], text, &field)))
    return false;
  return field == NULL || access_admit_upload(x, code_upload_text(field, what));
}

bool upload_admit(exchange *x, const char *name, slice value)
{
  if (x->stranger == NULL)
    return true;
  if (strcmp(name, "config") == 0)
    return admit_config(x, value);
  return !text_starts_with(name, "file:") || access_admit_upload(x, "a file of a model");
}
