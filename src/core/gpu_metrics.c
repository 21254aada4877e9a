// SPDX-License-Identifier: Apache-2.0
// One thread samples: NVML may take milliseconds, and may hang on a GPU that is lost. Scrapes,
// maybe on a loop's thread, read the last samples under the lock and wait for none.
#include "core/gpu_metrics.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/gpu_ticker.h"
#include "gpu/copy.h"
#include "gpu/health.h"
#include "gpu/sampler.h"
#include "metrics/registry.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS       UINT64_C(1000000)
#define MIN_INTERVAL_MS 10 // a shorter one is no use
#define PATIENCE_NS     UINT64_C(5000000000)

struct gpu_metrics {
  gpus *gpus;
  const gpu_devices *devices; // count 0: there are none
  metrics_collector *collector;
  uint64_t pinned_bytes;
  gpu_ticker *ticker;     // NULL: there is nothing to sample
  gpu_sampler *sampler;   // used by the ticker's thread
  pthread_mutex_t lock;   // guards what follows
  pthread_cond_t changed; // `tried`
  bool tried, sampled;
  gpu_sample samples[MAX_GPUS];
};

static const slice no_labels = {0};

// ---- sampling ----

static error *open_sampler(gpu_metrics *m)
{
  RETURN_IF_ERROR(gpu_sampler_new(m->devices, &m->sampler));
  for (size_t i = 0; i < m->devices->count; i++)
    log_info("Collecting metrics for GPU %d: %s", m->devices->items[i].ordinal,
             m->devices->items[i].name);
  return NULL;
}

static void keep(gpu_metrics *m, const gpu_sample *samples)
{
  LOCK_SCOPE(&m->lock);
  if (samples != NULL) {
    memcpy(m->samples, samples, m->devices->count * sizeof(samples[0]));
    m->sampled = true;
  }
  m->tried = true;
  pthread_cond_broadcast(&m->changed);
}

static bool sample(void *context)
{
  gpu_metrics *m = context;
  gpu_sample samples[MAX_GPUS];
  AUTO_ERROR error *e = m->sampler == NULL ? open_sampler(m) : NULL;
  if (e != NULL) {
    log_info("GPU metrics will not be available: %s", error_message(e));
    keep(m, NULL);
    return false;
  }
  for (size_t i = 0; i < m->devices->count; i++)
    gpu_sampler_take(m->sampler, i, &samples[i]);
  keep(m, samples);
  return true;
}

void gpu_metrics_await(gpu_metrics *m)
{
  uint64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
  LOCK_SCOPE(&m->lock);
  while (m->ticker != NULL && !m->tried && thread_wait(&m->changed, &m->lock, until_ns))
    ;
}

// ---- a scrape ----

// False when memory is short. The caller frees the buffer in any case.
static bool label(buffer *labels, const gpu_device *device)
{
  const metric_label uuid = {"gpu_uuid", device->uuid};
  return metrics_render_labels(labels, &uuid, 1);
}

// Names and help are Triton's.
static const struct {
  metric_kind kind;
  const char *name, *help;
  size_t offset; // of a double in gpu_sample
} sampled_families[] = {
    {METRIC_GAUGE, "nv_gpu_utilization", "GPU utilization rate [0.0 - 1.0)",
     offsetof(gpu_sample, utilization)},
    {METRIC_GAUGE, "nv_gpu_memory_total_bytes", "GPU total memory, in bytes",
     offsetof(gpu_sample, memory_total_bytes)},
    {METRIC_GAUGE, "nv_gpu_memory_used_bytes", "GPU used memory, in bytes",
     offsetof(gpu_sample, memory_used_bytes)},
    {METRIC_GAUGE, "nv_gpu_power_usage", "GPU power usage in watts",
     offsetof(gpu_sample, power_watts)},
    {METRIC_GAUGE, "nv_gpu_power_limit", "GPU power management limit in watts",
     offsetof(gpu_sample, power_limit_watts)},
    {METRIC_COUNTER, "nv_energy_consumption",
     "GPU energy consumption in joules since the Triton Server started",
     offsetof(gpu_sample, energy_joules)},
};

static void add_samples(const gpu_sample *samples, const gpu_devices *devices, const buffer *labels,
                        metrics_sheet *sheet)
{
  for (size_t f = 0; f < sizeof(sampled_families) / sizeof(sampled_families[0]); f++) {
    metrics_family *family = metrics_sheet_process_family(
        sheet, sampled_families[f].kind, sampled_families[f].name, sampled_families[f].help);
    for (size_t i = 0; i < devices->count; i++) {
      double value = *(const double *)((const char *)&samples[i] + sampled_families[f].offset);
      if (value >= 0) // else the device does not report it
        metrics_family_add(family, buffer_view(&labels[i]), value);
    }
  }
}

static void collect_samples(gpu_metrics *m, const buffer *labels, metrics_sheet *sheet)
{
  LOCK_SCOPE(&m->lock);
  if (m->sampled)
    add_samples(m->samples, m->devices, labels, sheet);
}

static void add_process(metrics_sheet *sheet, metric_kind kind, const char *name, const char *help,
                        uint64_t value)
{
  metrics_family_add_integer(metrics_sheet_process_family(sheet, kind, name, help), no_labels,
                             value);
}

// Triton shows these two families everywhere, with the configured size as the total. Here the pool
// is made with the first instance on a GPU; until then none of it is used.
static void collect_pinned(gpu_metrics *m, metrics_sheet *sheet)
{
  gpu_pool_counts pinned = {0};
  if (m->devices->count > 0)
    gpus_count(m->gpus, GPU_MEMORY_PINNED, -1, &pinned);
  add_process(sheet, METRIC_GAUGE, "nv_pinned_memory_pool_total_bytes",
              "Pinned memory pool total memory size, in bytes",
              pinned.total_bytes > 0 ? pinned.total_bytes : m->pinned_bytes);
  add_process(sheet, METRIC_GAUGE, "nv_pinned_memory_pool_used_bytes",
              "Pinned memory pool used memory size, in bytes", pinned.used_bytes);
  if (m->devices->count > 0)
    add_process(sheet, METRIC_COUNTER, "nereid_pinned_memory_pool_misses_total",
                "Wishes for pinned memory that found no room in the pool", pinned.misses);
}

static void collect_pools(gpu_metrics *m, const buffer *labels, metrics_sheet *sheet)
{
  metrics_family *total = metrics_sheet_process_family(
      sheet, METRIC_GAUGE, "nereid_gpu_memory_pool_total_bytes", "Memory pool of a GPU, in bytes");
  metrics_family *used =
      metrics_sheet_process_family(sheet, METRIC_GAUGE, "nereid_gpu_memory_pool_used_bytes",
                                   "What of the memory pool is used, in bytes");
  metrics_family *misses =
      metrics_sheet_process_family(sheet, METRIC_COUNTER, "nereid_gpu_memory_pool_misses_total",
                                   "Wishes for memory of a GPU that found no room in its pool");
  for (size_t i = 0; i < m->devices->count; i++) {
    gpu_pool_counts counts = {0};
    gpus_count(m->gpus, GPU_MEMORY_DEVICE, m->devices->items[i].ordinal, &counts);
    metrics_family_add_integer(total, buffer_view(&labels[i]), counts.total_bytes);
    metrics_family_add_integer(used, buffer_view(&labels[i]), counts.used_bytes);
    metrics_family_add_integer(misses, buffer_view(&labels[i]), counts.misses);
  }
}

static void collect_copies(metrics_sheet *sheet)
{
  static const char *const directions[GPU_COPY_DIRECTIONS] = {
      [GPU_COPY_TO_DEVICE] = "to_device",
      [GPU_COPY_TO_HOST] = "to_host",
      [GPU_COPY_ON_DEVICE] = "on_device",
      [GPU_COPY_BETWEEN_DEVICES] = "between_devices",
  };
  gpu_copy_counts counts;
  gpu_copy_count(&counts);
  metrics_family *copies = metrics_sheet_process_family(
      sheet, METRIC_COUNTER, "nereid_gpu_copies_total", "Copies from and to memory of GPUs");
  metrics_family *bytes = metrics_sheet_process_family(
      sheet, METRIC_COUNTER, "nereid_gpu_copied_bytes_total", "Bytes of these copies");
  for (int d = 0; d < GPU_COPY_DIRECTIONS; d++) {
    const metric_label direction = {"direction", directions[d]};
    metrics_family_add_with(copies, no_labels, direction, counts.copies[d]);
    metrics_family_add_with(bytes, no_labels, direction, counts.bytes[d]);
  }
}

static void collect_faults(gpu_metrics *m, const buffer *labels, metrics_sheet *sheet)
{
  metrics_family *xids = metrics_sheet_process_family(
      sheet, METRIC_COUNTER, "nereid_gpu_xids_total", "Xid errors that the driver has reported");
  metrics_family *faults =
      metrics_sheet_process_family(sheet, METRIC_GAUGE, "nereid_gpu_fault",
                                   "1 for a GPU that cannot be used, by the driver's code");
  for (size_t i = 0; i < m->devices->count; i++) {
    int device = m->devices->items[i].ordinal;
    char code[64];
    metrics_family_add_integer(xids, buffer_view(&labels[i]), gpu_health_xids(device));
    if (gpu_health_code(device, code, sizeof(code)))
      metrics_family_add_with(faults, buffer_view(&labels[i]), (metric_label){"code", code}, 1);
  }
}

static void collect(void *context, metrics_sheet *sheet)
{
  gpu_metrics *m = context;
  buffer labels[MAX_GPUS];
  collect_pinned(m, sheet);
  for (size_t i = 0; i < m->devices->count; i++) {
    labels[i] = BUFFER_EMPTY;
    sheet->failed |= !label(&labels[i], &m->devices->items[i]);
  }
  if (m->ticker != NULL) {
    collect_samples(m, labels, sheet);
    collect_pools(m, labels, sheet);
    collect_copies(sheet);
    collect_faults(m, labels, sheet);
  }
  for (size_t i = 0; i < m->devices->count; i++)
    buffer_fini(&labels[i]);
}

// ---- life ----

error *gpu_metrics_new(gpus *g, bool of_devices, uint64_t interval_ms, uint64_t pinned_bytes,
                       gpu_metrics **result)
{
  gpu_metrics *m = calloc(1, sizeof(*m));
  if (m == NULL)
    return error_no_memory();
  m->gpus = g;
  m->pinned_bytes = pinned_bytes;
  m->devices = g != NULL ? gpus_devices(g) : gpu_devices_none();
  pthread_mutex_init(&m->lock, NULL);
  pthread_cond_init(&m->changed, NULL);
  error *e = metrics_registry_add_collector(metrics_registry_global(), collect, m, &m->collector);
  if (e == NULL && of_devices && m->devices->count > 0)
    e = gpu_ticker_new("gpu-metrics",
                       (interval_ms < MIN_INTERVAL_MS ? MIN_INTERVAL_MS : interval_ms) * NS_PER_MS,
                       sample, m, &m->ticker);
  if (e != NULL) {
    gpu_metrics_free(m);
    return e;
  }
  *result = m;
  return NULL;
}

void gpu_metrics_free(gpu_metrics *m)
{
  if (m == NULL)
    return;
  metrics_registry_remove_collector(metrics_registry_global(), m->collector);
  if (!gpu_ticker_free(m->ticker))
    return;
  gpu_sampler_free(m->sampler);
  pthread_cond_destroy(&m->changed);
  pthread_mutex_destroy(&m->lock);
  free(m);
}
