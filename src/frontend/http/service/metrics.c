// GET /metrics: the routes of a listener of its own, which answers when the inference port is full
// and stays up while that one drains. Its loop's thread.
#include "frontend/common/net/compress.h"
#include "frontend/common/observe/frontend_log.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/exchange/server.h"
#include "frontend/http/service/routes.h"

#define TEXT_TYPE "text/plain; charset=utf-8"

static void delete_metrics(void *metrics)
{
  TRITONSERVER_ErrorDelete(TRITONSERVER_MetricsDelete(metrics));
}

// The text is sent from the snapshot, which the response then owns, or packed.
static struct MHD_Response *make_response(exchange *x, TRITONSERVER_Metrics *metrics_owned,
                                          slice text)
{
  content_coding coding = x->headers.accepts;
  if (coding == CODING_IDENTITY || !compress_parts(coding, COMPRESS_FAST, &text, 1, &x->text))
    return response_of(text, TEXT_TYPE, delete_metrics, metrics_owned);
  delete_metrics(metrics_owned);
  return response_with(response_of_text(x, TEXT_TYPE), MHD_HTTP_HEADER_CONTENT_ENCODING,
                       coding == CODING_GZIP ? "gzip" : "deflate");
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
    exchange_reply_with(x, response_with(make_response(x, metrics, text), MHD_HTTP_HEADER_VARY,
                                         MHD_HTTP_HEADER_ACCEPT_ENCODING));
    return;
  }
  frontend_log_failure(NULL, "cannot give the metrics", failure);
  if (metrics != NULL)
    delete_metrics(metrics);
  exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "the metrics are not available");
}

// As Triton: any other path is an empty page.
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
