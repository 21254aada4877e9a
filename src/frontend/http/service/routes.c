// The route table.
#include "frontend/http/service/routes.h"

#define GET  METHOD_GET
#define POST METHOD_POST

// The first row that matches wins, so fixed paths come before those with parameters; among the
// others the busiest come first.
static const route rows[] = {
    {POST, "/v2/models/{model}/infer", CATEGORY_INFERENCE, BODY_TENSORS, handle_infer},
    {POST, "/v2/models/{model}/versions/{version}/infer", CATEGORY_INFERENCE, BODY_TENSORS,
     handle_infer},

    {GET, "/v2", CATEGORY_METADATA, BODY_IGNORED, handle_server_metadata},
    {GET, "/v2/health/live", CATEGORY_HEALTH, BODY_IGNORED, handle_server_live},
    {GET, "/v2/health/ready", CATEGORY_HEALTH, BODY_IGNORED, handle_server_ready},

    {GET, "/v2/models/stats", CATEGORY_STATISTICS, BODY_IGNORED, handle_model_statistics},

    {GET, "/v2/models/{model}", CATEGORY_METADATA, BODY_IGNORED, handle_model_metadata},
    {GET, "/v2/models/{model}/versions/{version}", CATEGORY_METADATA, BODY_IGNORED,
     handle_model_metadata},
    {GET, "/v2/models/{model}/ready", CATEGORY_HEALTH, BODY_IGNORED, handle_model_ready},
    {GET, "/v2/models/{model}/versions/{version}/ready", CATEGORY_HEALTH, BODY_IGNORED,
     handle_model_ready},
    {GET, "/v2/models/{model}/config", CATEGORY_MODEL_CONFIG, BODY_IGNORED, handle_model_config},
    {GET, "/v2/models/{model}/versions/{version}/config", CATEGORY_MODEL_CONFIG, BODY_IGNORED,
     handle_model_config},
    {GET, "/v2/models/{model}/stats", CATEGORY_STATISTICS, BODY_IGNORED, handle_model_statistics},
    {GET, "/v2/models/{model}/versions/{version}/stats", CATEGORY_STATISTICS, BODY_IGNORED,
     handle_model_statistics},

    {POST, "/v2/models/{model}/generate", CATEGORY_INFERENCE, BODY_GENERATE, handle_generate},
    {POST, "/v2/models/{model}/versions/{version}/generate", CATEGORY_INFERENCE, BODY_GENERATE,
     handle_generate},
    {POST, "/v2/models/{model}/generate_stream", CATEGORY_INFERENCE, BODY_GENERATE,
     handle_generate_stream},
    {POST, "/v2/models/{model}/versions/{version}/generate_stream", CATEGORY_INFERENCE,
     BODY_GENERATE, handle_generate_stream},

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

    {GET | POST, "/v2/logging", CATEGORY_LOGGING, BODY_JSON, handle_logging},
    {GET | POST, "/v2/trace/setting", CATEGORY_TRACE, BODY_JSON, handle_trace_setting},
    {GET | POST, "/v2/models/{model}/trace/setting", CATEGORY_TRACE, BODY_JSON,
     handle_trace_setting},

    {GET, "/v2/systemsharedmemory/status", CATEGORY_SHARED_MEMORY, BODY_IGNORED,
     handle_system_memory_status},
    {GET, "/v2/systemsharedmemory/region/{region}/status", CATEGORY_SHARED_MEMORY, BODY_IGNORED,
     handle_system_memory_status},
    {POST, "/v2/systemsharedmemory/register", CATEGORY_SHARED_MEMORY, BODY_JSON,
     handle_system_memory_register},
    {POST, "/v2/systemsharedmemory/region/{region}/register", CATEGORY_SHARED_MEMORY, BODY_JSON,
     handle_system_memory_register},
    {POST, "/v2/systemsharedmemory/unregister", CATEGORY_SHARED_MEMORY, BODY_JSON,
     handle_system_memory_unregister},
    {POST, "/v2/systemsharedmemory/region/{region}/unregister", CATEGORY_SHARED_MEMORY, BODY_JSON,
     handle_system_memory_unregister},
    {GET, "/v2/cudasharedmemory/status", CATEGORY_SHARED_MEMORY, BODY_IGNORED,
     handle_cuda_memory_status},
    {GET, "/v2/cudasharedmemory/region/{region}/status", CATEGORY_SHARED_MEMORY, BODY_IGNORED,
     handle_cuda_memory_status},
    {POST, "/v2/cudasharedmemory/register", CATEGORY_SHARED_MEMORY, BODY_JSON,
     handle_cuda_memory_register},
    {POST, "/v2/cudasharedmemory/region/{region}/register", CATEGORY_SHARED_MEMORY, BODY_JSON,
     handle_cuda_memory_register},
    {POST, "/v2/cudasharedmemory/unregister", CATEGORY_SHARED_MEMORY, BODY_JSON,
     handle_cuda_memory_unregister},
    {POST, "/v2/cudasharedmemory/region/{region}/unregister", CATEGORY_SHARED_MEMORY, BODY_JSON,
     handle_cuda_memory_unregister},
};

const route_table http_routes = {
    .rows = rows,
    .count = sizeof(rows) / sizeof(rows[0]),
    .admit = {[BODY_TENSORS] = infer_admit, [BODY_GENERATE] = generate_admit},
};
