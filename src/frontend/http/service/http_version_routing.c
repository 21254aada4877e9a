// SPDX-License-Identifier: Apache-2.0
// Shows and changes the labels, split and shadows of a model's versions. In a job, because the body
// may be long.
#include "frontend/http/service/routes.h"

#include "frontend/common/admin/model_admin.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"
#include "nereid/nereid.h"

static void reply(exchange *x)
{
  TRITONSERVER_Message *message;
  size_t size = x->method == METHOD_POST ? x->body.size : 0;
  TRITONSERVER_Error *failure = NEREID_ServerModelRouting(
      x->http->server, x->parameters[PARAMETER_MODEL], x->body.data, size, &message);
  exchange_fail_if_error(x, admin_take_json(failure, &message, &x->text));
  exchange_reply_json(x);
}

void handle_version_routing(exchange *x)
{
  exchange_run_job(x, JOB_PROBES, reply, NULL);
}
