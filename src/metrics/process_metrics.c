// SPDX-License-Identifier: Apache-2.0
// Reads /proc/stat and /proc/meminfo. Runs on the scraper's thread, under the registry's lock of
// collectors, which guards all fields.
#include "metrics/process_metrics.h"

#include "base/cleanup.h"
#include "base/files.h"
#include "base/log.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_LIMIT (4u << 20) // /proc/stat grows with processors and interrupts

// Columns of the first line of /proc/stat.
typedef enum cpu_column {
  CPU_USER,
  CPU_NICE,
  CPU_SYSTEM,
  CPU_IDLE,
  CPU_IOWAIT,
  CPU_IRQ,
  CPU_SOFTIRQ,
  CPU_STEAL,
  CPU_COLUMNS
} cpu_column;

typedef struct cpu_times {
  uint64_t ticks[CPU_COLUMNS];
  bool known;
} cpu_times;

struct process_metrics {
  metrics_registry *registry;
  metrics_collector *collector;
  file_root proc;
  clock_source clock;
  uint64_t interval_ns;
  uint64_t sampled_ns;
  cpu_times baseline; // at the last sample
  double utilization; // between the last two samples, 0 to 1
  uint64_t memory_total;
  uint64_t memory_used;
  bool has_memory;
};

// Takes the next word from `rest`; empty at its end.
static slice next_word(slice *rest)
{
  while (rest->size > 0 && (*rest->data == ' ' || *rest->data == '\t'))
    *rest = (slice){rest->data + 1, rest->size - 1};
  size_t size = 0;
  while (size < rest->size && rest->data[size] != ' ' && rest->data[size] != '\t')
    size++;
  slice word = {rest->data, size};
  *rest = (slice){rest->data + size, rest->size - size};
  return word;
}

// Takes the next line from `rest`. False at its end.
static bool next_line(slice *rest, slice *line)
{
  if (rest->size == 0)
    return false;
  const char *end = memchr(rest->data, '\n', rest->size);
  size_t size = end != NULL ? (size_t)(end - rest->data) : rest->size;
  size_t used = end != NULL ? size + 1 : size;
  *line = (slice){rest->data, size};
  *rest = (slice){rest->data + used, rest->size - used};
  return true;
}

static bool read_file(const process_metrics *p, const char *name, buffer *text)
{
  error *failure = files_read(&p->proc, name, READ_LIMIT, text);
  error_free(failure);
  return failure == NULL;
}

static cpu_times read_cpu(const process_metrics *p)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  cpu_times times = {0};
  slice line;
  if (!read_file(p, "stat", &text))
    return times;
  slice rest = buffer_view(&text);
  if (!next_line(&rest, &line) || !slice_equal_text(next_word(&line), "cpu"))
    return times;
  for (size_t i = 0; i < CPU_COLUMNS; i++)
    if (!text_to_uint64(next_word(&line), &times.ticks[i]))
      return (cpu_times){0};
  times.known = true;
  return times;
}

static double utilization(const cpu_times *before, const cpu_times *now)
{
  uint64_t busy = 0, idle = 0;
  for (size_t i = 0; i < CPU_COLUMNS; i++) {
    uint64_t ticks = now->ticks[i] > before->ticks[i] ? now->ticks[i] - before->ticks[i] : 0;
    if (i == CPU_IDLE || i == CPU_IOWAIT)
      idle += ticks;
    else
      busy += ticks;
  }
  return busy + idle > 0 ? (double)busy / (double)(busy + idle) : 0;
}

// Used is total minus available, as in Triton. False: unreadable.
static bool sample_memory(process_metrics *p)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  uint64_t total = 0, available = 0;
  bool has_total = false, has_available = false;
  if (!read_file(p, "meminfo", &text))
    return false;
  slice rest = buffer_view(&text), line;
  while (next_line(&rest, &line)) {
    slice name = next_word(&line);
    if (slice_equal_text(name, "MemTotal:"))
      has_total = text_to_uint64(next_word(&line), &total);
    else if (slice_equal_text(name, "MemAvailable:"))
      has_available = text_to_uint64(next_word(&line), &available);
  }
  if (!has_total || !has_available || available > total || total > UINT64_MAX / 1024)
    return false;
  p->memory_total = total * 1024;
  p->memory_used = (total - available) * 1024;
  p->has_memory = true;
  return true;
}

// Unreadable values stay unchanged, and the next scrape reads again.
static void sample(process_metrics *p, uint64_t now_ns)
{
  cpu_times now = read_cpu(p);
  if (p->baseline.known && now.known)
    p->utilization = utilization(&p->baseline, &now);
  if (now.known)
    p->baseline = now;
  if (sample_memory(p) && now.known)
    p->sampled_ns = now_ns;
}

static void collect(void *context, metrics_sheet *sheet)
{
  process_metrics *p = context;
  uint64_t now_ns = clock_now(p->clock);
  if (now_ns - p->sampled_ns >= p->interval_ns)
    sample(p, now_ns);
  static const slice none = {0};
  if (p->baseline.known)
    metrics_family_add(metrics_sheet_process_family(sheet, METRIC_GAUGE, "nv_cpu_utilization",
                                                    "CPU utilization rate [0.0 - 1.0]"),
                       none, p->utilization);
  if (!p->has_memory)
    return;
  metrics_family_add_integer(metrics_sheet_process_family(sheet, METRIC_GAUGE,
                                                          "nv_cpu_memory_total_bytes",
                                                          "CPU total memory (RAM), in bytes"),
                             none, p->memory_total);
  metrics_family_add_integer(metrics_sheet_process_family(sheet, METRIC_GAUGE,
                                                          "nv_cpu_memory_used_bytes",
                                                          "CPU used memory (RAM), in bytes"),
                             none, p->memory_used);
}

error *process_metrics_new(metrics_registry *registry, const char *proc, clock_source clock,
                           uint64_t interval_ms, process_metrics **p)
{
  process_metrics *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return error_no_memory();
  made->registry = registry;
  made->clock = clock;
  if (__builtin_mul_overflow(interval_ms, (uint64_t)1000000, &made->interval_ns))
    made->interval_ns = UINT64_MAX;
  error *failure = files_open_root(proc, &file_policy_anywhere, &made->proc);
  if (failure != NULL) {
    free(made);
    return failure;
  }
  sample(made, clock_now(clock));
  if (!made->baseline.known || !made->has_memory)
    log_warning("CPU metrics may not be available: cannot read %s in %s",
                made->baseline.known ? "meminfo" : "stat", proc);
  failure = metrics_registry_add_collector(registry, collect, made, &made->collector);
  if (failure != NULL) {
    process_metrics_free(made);
    return failure;
  }
  *p = made;
  return NULL;
}

void process_metrics_free(process_metrics *p)
{
  if (p == NULL)
    return;
  metrics_registry_remove_collector(p->registry, p->collector);
  file_root_close(&p->proc);
  free(p);
}
