// SPDX-License-Identifier: Apache-2.0
// Reads the cache's metrics and writes them in ORCA's two forms.
#include "frontend/common/observe/load_metrics.h"

#include "base/number.h"
#include "base/text.h"
#include "frontend/common/observe/frontend_log.h"

#include <inttypes.h>
#include <string.h>

#define FAMILY "nv_trt_llm_kv_cache_block_metrics{"
#define LABEL  "kv_cache_block_type=\""

typedef enum block_kind {
  BLOCKS_USED,
  BLOCKS_MAX,
  BLOCKS_TOKENS_PER,
  BLOCK_KINDS,
} block_kind;

static const char *const kind_names[BLOCK_KINDS] = {"used", "max", "tokens_per"};

// Reads "family{labels} value". If a kind stands there twice, the last counts, as in Triton.
static void read_sample(slice line, double values[BLOCK_KINDS])
{
  if (line.size < sizeof(FAMILY) || memcmp(line.data, FAMILY, sizeof(FAMILY) - 1) != 0)
    return;
  const char *label = memmem(line.data, line.size, LABEL, sizeof(LABEL) - 1);
  const char *blank = memrchr(line.data, ' ', line.size);
  if (label == NULL || blank == NULL || blank < label)
    return;
  const char *name = label + sizeof(LABEL) - 1;
  const char *quote = memchr(name, '"', (size_t)(blank - name));
  slice number = {blank + 1, (size_t)(line.data + line.size - blank - 1)};
  for (size_t i = 0; quote != NULL && i < BLOCK_KINDS; i++)
    if (slice_equal_text((slice){name, (size_t)(quote - name)}, kind_names[i]) &&
        !text_to_double(number, &values[i]))
      values[i] = -1;
}

// number_print_f64, because the C library's printing depends on the locale.
static void write_report(double used, uint64_t capacity, bool json, buffer *text)
{
  char number[NUMBER_TEXT_BYTES];
  uint64_t millionths = (uint64_t)(used * 1e6 + 0.5);
  if (json)
    buffer_append_format(text,
                         "JSON {\"named_metrics\":{\"kv_cache_utilization\":%.*s,"
                         "\"max_token_capacity\":%" PRIu64 "}}",
                         (int)number_print_f64(number, used), number, capacity);
  else
    buffer_append_format(text,
                         "TEXT named_metrics.kv_cache_utilization=%" PRIu64 ".%06" PRIu64
                         ", named_metrics.max_token_capacity=%" PRIu64,
                         millionths / 1000000, millionths % 1000000, capacity);
}

bool load_metrics_write_from(slice exposition, slice format, buffer *text)
{
  double values[BLOCK_KINDS] = {-1, -1, -1};
  bool json = slice_equal_text(format, "json");
  if (!json && !slice_equal_text(format, "text"))
    return false;
  while (exposition.size > 0)
    read_sample(slice_take_until(&exposition, '\n'), values);
  double capacity = values[BLOCKS_MAX] * values[BLOCKS_TOKENS_PER];
  for (size_t i = 0; i < BLOCK_KINDS; i++)
    if (values[i] < 0 || capacity > 1e18)
      return false;
  double used = values[BLOCKS_MAX] > 0 ? values[BLOCKS_USED] / values[BLOCKS_MAX] : 0;
  if (used > 1e6)
    return false;
  write_report(used, (uint64_t)capacity, json, text);
  return !text->failed;
}

bool load_metrics_write(TRITONSERVER_Server *server, slice format, buffer *text)
{
  TRITONSERVER_Metrics *metrics = NULL;
  const char *exposition;
  size_t size;
  bool written = false;
  TRITONSERVER_Error *failure = TRITONSERVER_ServerMetrics(server, &metrics);
  if (failure == NULL)
    failure =
        TRITONSERVER_MetricsFormatted(metrics, TRITONSERVER_METRIC_PROMETHEUS, &exposition, &size);
  if (failure == NULL)
    written = load_metrics_write_from((slice){exposition, size}, format, text);
  TRITONSERVER_ErrorDelete(failure);
  if (metrics != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MetricsDelete(metrics));
  if (!written)
    frontend_log_verbose("a load report was asked for, and there is none: %s",
                         "its metrics are missing, or the format is neither text nor json");
  return written;
}
