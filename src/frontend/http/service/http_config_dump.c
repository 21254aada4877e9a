// SPDX-License-Identifier: Apache-2.0
// GET /v2/nereid/config_dump: the flags that the server was started with. They reveal paths and
// what is unprotected, so only clients that may bring code see them (docs/security.md).
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/service/routes.h"

void handle_config_dump(exchange *x)
{
  if (x->remote_reason != NULL) {
    exchange_fail(x, MHD_HTTP_FORBIDDEN,
                  "the server's flags are shown on this machine only, at the admin address, or to "
                  "whoever has the key for 'model-repository' (--restricted-api), and %s",
                  x->remote_reason);
    return;
  }
  buffer_append_slice(&x->text, x->http->options.config_dump);
  exchange_reply_json(x);
}
