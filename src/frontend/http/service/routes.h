// SPDX-License-Identifier: Apache-2.0
// The table of everything that the inference port answers, and its handlers (route_handler in
// exchange_routing.h). Tests walk the table: a row needs its answers in
// tests/e2e/security/posture.txt.
#ifndef NEREID_FRONTEND_HTTP_SERVICE_ROUTES_H
#define NEREID_FRONTEND_HTTP_SERVICE_ROUTES_H

#include "frontend/http/exchange/exchange_routing.h"

extern const route_table http_routes;
extern const route_table http_routes_with_metrics; // and GET /metrics
extern const route_table metrics_routes;           // of the metrics port (http_metrics.c)

// control.c
void handle_server_metadata(exchange *x);
void handle_server_live(exchange *x);
void handle_server_ready(exchange *x);
void handle_model_metadata(exchange *x);
void handle_model_ready(exchange *x);
void handle_model_config(exchange *x);
void handle_model_statistics(exchange *x);

// http_repository.c: may take long
void handle_repository_index(exchange *x);
void handle_model_load(exchange *x);
void handle_model_unload(exchange *x);
void handle_named_repository(exchange *x);

// http_shared_memory.c
void handle_memory_status(exchange *x);
void handle_memory_register(exchange *x);
void handle_memory_unregister(exchange *x);
// http_version_routing.c
void handle_version_routing(exchange *x);
// logging.c
void handle_logging(exchange *x);
// http_config_dump.c
void handle_config_dump(exchange *x);
// operator.c
void handle_operator_status(exchange *x);
void handle_drain(exchange *x);
void handle_undrain(exchange *x);
// trace_setting.c
void handle_trace_setting(exchange *x);

// http_metrics.c
void handle_metrics_too(exchange *x);

// infer.c
void handle_infer(exchange *x);
void handle_generate(exchange *x);
void handle_generate_stream(exchange *x);

// Called when the headers are there. For infer the model must exist and not be decoupled, for
// generate it must exist. Otherwise fails the exchange.
void infer_admit(exchange *x);
void generate_admit(exchange *x);

#endif
