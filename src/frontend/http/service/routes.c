// The route table and its search. Called on the loop threads before a request's body is taken.
#include "frontend/http/service/routes.h"

#include "base/text.h"
#include "frontend/http/service/handlers.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#define GET  METHOD_GET
#define POST METHOD_POST

// The first row that matches wins, so fixed paths come before those with parameters; among the
// others the busiest come first.
static const route table[] = {
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

#define ROW_COUNT (sizeof(table) / sizeof(table[0]))

static const struct {
  slice name; // as it stands in a pattern
  route_parameter parameter;
} placeholders[] = {
    {{"{model}", 7}, PARAMETER_MODEL},
    {{"{version}", 9}, PARAMETER_VERSION},
    {{"{repository}", 12}, PARAMETER_REPOSITORY},
    {{"{region}", 8}, PARAMETER_REGION},
};

const route *routes_all(size_t *count)
{
  *count = ROW_COUNT;
  return table;
}

unsigned route_method_of(const char *name)
{
  if (strcmp(name, "POST") == 0)
    return METHOD_POST;
  if (strcmp(name, "GET") == 0 || strcmp(name, "HEAD") == 0)
    return METHOD_GET;
  return 0;
}

slice routes_path_of(const char *target)
{
  static const char *const schemes[] = {"http://", "https://"};
  for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
    size_t size = strlen(schemes[i]);
    if (strncasecmp(target, schemes[i], size) == 0)
      return slice_of(target + size + strcspn(target + size, "/"));
  }
  return slice_of(target);
}

// Takes the segment up to the next '/' off the front of `rest`, which begins with '/'.
static slice take_segment(slice *rest)
{
  const char *start = rest->data + 1;
  size_t left = rest->size - 1;
  const char *end = memchr(start, '/', left);
  size_t size = end == NULL ? left : (size_t)(end - start);
  *rest = (slice){start + size, left - size};
  return (slice){start, size};
}

static bool is_decimal(slice text)
{
  for (size_t i = 0; i < text.size; i++)
    if (text.data[i] < '0' || text.data[i] > '9')
      return false;
  return text.size > 0;
}

static bool take_parameter(slice pattern, slice segment, slice parameters[PARAMETER_COUNT])
{
  for (size_t i = 0; i < sizeof(placeholders) / sizeof(placeholders[0]); i++) {
    if (!slice_equal(pattern, placeholders[i].name))
      continue;
    if (segment.size == 0)
      return false;
    if (placeholders[i].parameter == PARAMETER_VERSION && !is_decimal(segment))
      return false;
    parameters[placeholders[i].parameter] = segment;
    return true;
  }
  return false;
}

static bool matches(const char *pattern_text, slice path, slice parameters[PARAMETER_COUNT])
{
  slice pattern = slice_of(pattern_text);
  memset(parameters, 0, PARAMETER_COUNT * sizeof(slice));
  while (pattern.size > 0 && path.size > 0) {
    if (path.data[0] != '/')
      return false;
    slice expected = take_segment(&pattern);
    slice segment = take_segment(&path);
    bool varies = expected.data[0] == '{';
    if (varies ? !take_parameter(expected, segment, parameters) : !slice_equal(expected, segment))
      return false;
  }
  return pattern.size == 0 && path.size == 0;
}

route_match routes_find(unsigned method, slice path)
{
  route_match match = {0};
  const char *matched = NULL; // the pattern that matched first: rows of other patterns are out
  for (size_t i = 0; i < ROW_COUNT; i++) {
    if (matched != NULL && strcmp(matched, table[i].path) != 0)
      continue;
    if (matched == NULL && !matches(table[i].path, path, match.parameters))
      continue;
    matched = table[i].path;
    match.methods |= table[i].methods;
    match.category = table[i].category;
    if (match.route == NULL && (table[i].methods & method) != 0)
      match.route = &table[i];
    if (match.route != NULL)
      break;
  }
  return match;
}

bool route_decode(slice from, char *to)
{
  for (size_t i = 0; i < from.size; i++) {
    if (from.data[i] != '%') {
      *to++ = from.data[i];
      continue;
    }
    int high = i + 1 < from.size ? text_hex_digit(from.data[i + 1]) : -1;
    int low = i + 2 < from.size ? text_hex_digit(from.data[i + 2]) : -1;
    if (high < 0 || low < 0)
      return false;
    int c = high * 16 + low;
    if (c < 0x20 || c == 0x7f || c == '/')
      return false;
    *to++ = (char)c;
    i += 2;
  }
  *to = '\0';
  return true;
}
