// SPDX-License-Identifier: Apache-2.0
// The route table.
#include "frontend/http/service/routes.h"

#define GET  METHOD_GET
#define POST METHOD_POST

// A model's route, and that of one of its versions.
#define OF_MODEL(methods, end, ...)                                                                \
  {methods, "/v2/models/{model}" end, __VA_ARGS__},                                                \
  {                                                                                                \
    methods, "/v2/models/{model}/versions/{version}" end, __VA_ARGS__                              \
  }

// For all regions of a kind of memory, and for one region.
#define OF_MEMORY(methods, kind, end, body, handle)                                                \
  {methods, "/v2/" kind "sharedmemory" end, CATEGORY_SHARED_MEMORY, body, handle},                 \
  {                                                                                                \
    methods, "/v2/" kind "sharedmemory/region/{region}" end, CATEGORY_SHARED_MEMORY, body, handle  \
  }

// The first match wins: fixed paths come before those with parameters, then the busiest first.
static const route rows[] = {
    OF_MODEL(POST, "/infer", CATEGORY_INFERENCE, BODY_TENSORS, handle_infer),

    {GET, "/v2", CATEGORY_METADATA, BODY_IGNORED, handle_server_metadata},
    {GET, "/v2/health/live", CATEGORY_HEALTH, BODY_IGNORED, handle_server_live},
    {GET, "/v2/health/ready", CATEGORY_HEALTH, BODY_IGNORED, handle_server_ready},

    {GET, "/v2/models/stats", CATEGORY_STATISTICS, BODY_IGNORED, handle_model_statistics},

    OF_MODEL(GET, "", CATEGORY_METADATA, BODY_IGNORED, handle_model_metadata),
    OF_MODEL(GET, "/ready", CATEGORY_HEALTH, BODY_IGNORED, handle_model_ready),
    OF_MODEL(GET, "/config", CATEGORY_MODEL_CONFIG, BODY_IGNORED, handle_model_config),
    OF_MODEL(GET, "/stats", CATEGORY_STATISTICS, BODY_IGNORED, handle_model_statistics),

    OF_MODEL(POST, "/generate", CATEGORY_INFERENCE, BODY_GENERATE, handle_generate),
    OF_MODEL(POST, "/generate_stream", CATEGORY_INFERENCE, BODY_GENERATE, handle_generate_stream),

    {POST, "/v2/repository/index", CATEGORY_MODEL_REPOSITORY, BODY_JSON, handle_repository_index},
    {POST, "/v2/repository/{repository}/index", CATEGORY_MODEL_REPOSITORY, BODY_JSON,
     handle_repository_index},
    {POST, "/v2/repository/models/{model}/load", CATEGORY_MODEL_REPOSITORY, BODY_JSON,
     handle_model_load},
    {POST, "/v2/repository/models/{model}/unload", CATEGORY_MODEL_REPOSITORY, BODY_JSON,
     handle_model_unload},
    {POST, "/v2/repository/{repository}/models/{model}/load", CATEGORY_MODEL_REPOSITORY,
     BODY_IGNORED, handle_named_repository},
    {POST, "/v2/repository/{repository}/models/{model}/unload", CATEGORY_MODEL_REPOSITORY,
     BODY_IGNORED, handle_named_repository},

    {GET | POST, "/v2/models/{model}/routing", CATEGORY_MODEL_REPOSITORY, BODY_JSON,
     handle_version_routing},
    {GET, "/v2/nereid/status", CATEGORY_MODEL_REPOSITORY, BODY_IGNORED, handle_operator_status},
    {POST, "/v2/nereid/drain", CATEGORY_MODEL_REPOSITORY, BODY_IGNORED, handle_drain},
    {POST, "/v2/nereid/undrain", CATEGORY_MODEL_REPOSITORY, BODY_IGNORED, handle_undrain},
    {GET, "/v2/nereid/config_dump", CATEGORY_MODEL_REPOSITORY, BODY_IGNORED, handle_config_dump},
    {GET | POST, "/v2/logging", CATEGORY_LOGGING, BODY_JSON, handle_logging},
    {GET | POST, "/v2/trace/setting", CATEGORY_TRACE, BODY_JSON, handle_trace_setting},
    {GET | POST, "/v2/models/{model}/trace/setting", CATEGORY_TRACE, BODY_JSON,
     handle_trace_setting},

    OF_MEMORY(GET, "system", "/status", BODY_IGNORED, handle_memory_status),
    OF_MEMORY(POST, "system", "/register", BODY_JSON, handle_memory_register),
    OF_MEMORY(POST, "system", "/unregister", BODY_JSON, handle_memory_unregister),
    OF_MEMORY(GET, "cuda", "/status", BODY_IGNORED, handle_memory_status),
    OF_MEMORY(POST, "cuda", "/register", BODY_JSON, handle_memory_register),
    OF_MEMORY(POST, "cuda", "/unregister", BODY_JSON, handle_memory_unregister),

    // The last METRICS_ROWS, only with --metrics-on-http: whoever may read statistics may read
    // metrics.
    {GET, "/metrics", CATEGORY_STATISTICS, BODY_IGNORED, handle_metrics_too},
    {GET, "/metrics/", CATEGORY_STATISTICS, BODY_IGNORED, handle_metrics_too},
};

#define METRICS_ROWS 2
#define ROWS         (sizeof(rows) / sizeof(rows[0]))

const route_table http_routes = {
    .rows = rows,
    .count = ROWS - METRICS_ROWS,
    .admit = {[BODY_TENSORS] = infer_admit, [BODY_GENERATE] = generate_admit},
};

const route_table http_routes_with_metrics = {
    .rows = rows,
    .count = ROWS,
    .admit = {[BODY_TENSORS] = infer_admit, [BODY_GENERATE] = generate_admit},
};
