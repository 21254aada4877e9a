// SPDX-License-Identifier: Apache-2.0
// GET /metrics. The metrics port has a listener of its own, which answers on its loop thread even
// while the inference port is full or drains. On the inference port a job answers, so that a scrape
// does not delay inferences.
#include "frontend/common/net/compress.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/exchange_server.h"
#include "frontend/http/service/routes.h"

#define TEXT_TYPE "text/plain; charset=utf-8"

static void reply_with(exchange *x, slice text)
{
  content_coding coding = x->headers.accepts;
  bool packed =
      coding != CODING_IDENTITY && compress_parts(coding, COMPRESS_FAST, &text, 1, &x->text);
  if (!packed) {
    exchange_drop_text(x);
    buffer_append_slice(&x->text, text);
  }
  if (!exchange_text_fits(x))
    return;
  struct MHD_Response *made = response_with(response_of_text(x, TEXT_TYPE), MHD_HTTP_HEADER_VARY,
                                            MHD_HTTP_HEADER_ACCEPT_ENCODING);
  if (packed)
    made = response_with(made, MHD_HTTP_HEADER_CONTENT_ENCODING,
                         coding == CODING_GZIP ? "gzip" : "deflate");
  exchange_reply_with(x, made);
}

static void handle_metrics(exchange *x)
{
  TRITONSERVER_Metrics *metrics = NULL;
  slice text;
  TRITONSERVER_Error *failure = TRITONSERVER_ServerMetrics(x->http->server, &metrics);
  if (failure == NULL)
    failure = TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, &text.data,
                                            &text.size);
  if (failure == NULL) {
    reply_with(x, text);
  } else {
    frontend_log_failure(NULL, "cannot give the metrics", failure);
    exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "the metrics are not available");
  }
  if (metrics != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricsDelete(metrics));
}

void handle_metrics_too(exchange *x)
{
  exchange_run_job(x, JOB_COMPUTES, handle_metrics, NULL);
}

// Any other path is an empty page, as in Triton.
static void handle_other(exchange *x)
{
  exchange_reply_with(x, response_of_text(x, TEXT_TYPE));
}

static const route rows[] = {
    {METHOD_GET, "/metrics", CATEGORY_HEALTH, BODY_IGNORED, handle_metrics},
    {METHOD_GET, "/metrics/", CATEGORY_HEALTH, BODY_IGNORED, handle_metrics},
    {METHOD_GET, "*", CATEGORY_HEALTH, BODY_IGNORED, handle_other},
};

const route_table metrics_routes = {.rows = rows, .count = sizeof(rows) / sizeof(rows[0])};
