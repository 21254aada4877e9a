// SPDX-License-Identifier: Apache-2.0
// Collectors and families behind two locks, values as atomics. Programs and backends call it on any
// thread (values), the scraper's thread prints.
#include "metrics/registry.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/string_map.h"
#include "base/text.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct metrics_collector {
  metrics_collector *next;
  metrics_collect *collect;
  void *context;
};

// A shown metric, shared by handles.
typedef struct metric_entry {
  char *labels; // rendered; also its key in the family
  size_t handles;
  _Atomic double value; // for a histogram the sum
  double *bounds;       // for a histogram
  _Atomic uint64_t *counts;
  size_t bound_count;
} metric_entry;

// A shown family, shared by handles.
typedef struct family_entry {
  metric_kind kind;
  char *name;
  char *help;
  size_t handles;
  string_map metrics; // rendered labels → metric_entry
} family_entry;

struct TRITONSERVER_MetricFamily {
  metrics_registry *registry;
  family_entry *entry;
  size_t metric_count; // handles on metrics made through this one; guarded by the registry's family
                       // lock
};

struct TRITONSERVER_Metric {
  metric_family *family;
  metric_entry *entry;
};

struct metrics_registry {
  pthread_mutex_t collector_lock; // guards `collectors`; held while they run
  metrics_collector *collectors;
  metrics_collector **collectors_end;
  pthread_mutex_t family_lock; // guards families and their metrics, not the values
  string_map families;         // name → family_entry
};

static const char *const kind_names[] = {
    [METRIC_COUNTER] = "TRITONSERVER_METRIC_KIND_COUNTER",
    [METRIC_GAUGE] = "TRITONSERVER_METRIC_KIND_GAUGE",
    [METRIC_HISTOGRAM] = "TRITONSERVER_METRIC_KIND_HISTOGRAM",
};

static metrics_registry global_registry = {.collector_lock = PTHREAD_MUTEX_INITIALIZER,
                                           .collectors_end = &global_registry.collectors,
                                           .family_lock = PTHREAD_MUTEX_INITIALIZER};

metrics_registry *metrics_registry_global(void)
{
  return &global_registry;
}

// --- Collectors

error *metrics_registry_add_collector(metrics_registry *registry, metrics_collect *collect,
                                      void *context, metrics_collector **collector)
{
  metrics_collector *made = malloc(sizeof(*made));
  if (made == NULL)
    return error_no_memory();
  *made = (metrics_collector){.collect = collect, .context = context};
  LOCK_SCOPE(&registry->collector_lock);
  *registry->collectors_end = made;
  registry->collectors_end = &made->next;
  *collector = made;
  return NULL;
}

void metrics_registry_remove_collector(metrics_registry *registry,
                                       metrics_collector *collector_owned)
{
  if (collector_owned == NULL)
    return;
  pthread_mutex_lock(&registry->collector_lock);
  metrics_collector **link = &registry->collectors;
  while (*link != collector_owned)
    link = &(*link)->next;
  *link = collector_owned->next;
  if (registry->collectors_end == &collector_owned->next)
    registry->collectors_end = link;
  pthread_mutex_unlock(&registry->collector_lock);
  free(collector_owned);
}

// --- Families

static void free_family_entry(family_entry *entry)
{
  string_map_fini(&entry->metrics);
  free(entry->name);
  free(entry->help);
  free(entry);
}

static family_entry *make_family_entry(metric_kind kind, const char *name, const char *help)
{
  family_entry *entry = calloc(1, sizeof(*entry));
  if (entry == NULL)
    return NULL;
  entry->kind = kind;
  entry->name = text_copy(slice_of(name));
  entry->help = text_copy(slice_of(help));
  if (entry->name != NULL && entry->help != NULL)
    return entry;
  free_family_entry(entry);
  return NULL;
}

// Families of a server's collectors, now or later: other samples must not look like the server's,
// nor appear twice.
static bool is_of_server(const char *name)
{
  static const char *const prefixes[] = {"nv_inference_",
                                         "nv_model_",
                                         "nv_cpu_",
                                         "nv_gpu_",
                                         "nv_energy_",
                                         "nv_pinned_",
                                         "nv_response_",
                                         "nv_cache_num_hits_per_",
                                         "nv_cache_num_misses_per_",
                                         "nv_cache_hit_",
                                         "nv_cache_miss_"};
  for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
    if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
      return true;
  return false;
}

error *metric_family_new(metrics_registry *registry, metric_kind kind, const char *name,
                         const char *help, metric_family **family)
{
  if (kind != METRIC_COUNTER && kind != METRIC_GAUGE && kind != METRIC_HISTOGRAM)
    return error_new(ERROR_INVALID_ARG, "Unsupported kind passed to MetricFamily constructor.");
  if (!metrics_is_metric_name(name))
    return error_new(ERROR_INVALID_ARG, "Invalid metric name");
  if (is_of_server(name))
    return error_new(ERROR_INVALID_ARG, "metric family '%.100s' has a name of the server's own",
                     name);
  metric_family *made = calloc(1, sizeof(*made));
  if (made == NULL)
    return error_no_memory();

  LOCK_SCOPE(&registry->family_lock);
  family_entry *entry = string_map_get(&registry->families, slice_of(name));
  if (entry != NULL && entry->kind != kind) {
    free(made);
    return error_new(ERROR_INVALID_ARG, "Family name already exists with different type");
  }
  if (entry == NULL) {
    entry = make_family_entry(kind, name, help);
    if (entry == NULL || !string_map_put(&registry->families, slice_of(name), entry)) {
      if (entry != NULL)
        free_family_entry(entry);
      free(made);
      return error_no_memory();
    }
  }
  entry->handles++;
  *made = (metric_family){.registry = registry, .entry = entry};
  *family = made;
  return NULL;
}

error *metric_family_free(metric_family *family_owned)
{
  metrics_registry *registry = family_owned->registry;
  family_entry *entry = family_owned->entry;
  {
    LOCK_SCOPE(&registry->family_lock);
    if (family_owned->metric_count > 0)
      return error_new(ERROR_INTERNAL, "Must call MetricDelete on all dependent metrics before "
                                       "calling MetricFamilyDelete.");
    if (--entry->handles == 0) {
      string_map_remove(&registry->families, slice_of(entry->name));
      free_family_entry(entry);
    }
  }
  free(family_owned);
  return NULL;
}

metric_kind metric_family_get_kind(const metric_family *family)
{
  return family->entry->kind;
}

// --- Metrics

static void free_metric_entry(metric_entry *entry)
{
  free(entry->labels);
  free(entry->bounds);
  free(entry->counts);
  free(entry);
}

static metric_entry *make_metric_entry(char *labels_owned, const metric_bounds *bounds)
{
  metric_entry *entry = calloc(1, sizeof(*entry));
  if (entry == NULL) {
    free(labels_owned);
    return NULL;
  }
  entry->labels = labels_owned;
  if (bounds == NULL)
    return entry;
  entry->bound_count = bounds->count;
  entry->bounds = calloc(bounds->count > 0 ? bounds->count : 1, sizeof(*entry->bounds));
  entry->counts = calloc(bounds->count + 1, sizeof(*entry->counts));
  if (entry->bounds == NULL || entry->counts == NULL) {
    free_metric_entry(entry);
    return NULL;
  }
  if (bounds->count > 0)
    memcpy(entry->bounds, bounds->bounds, bounds->count * sizeof(*entry->bounds));
  return entry;
}

static error *check_bounds(metric_kind kind, const metric_bounds *bounds)
{
  if (kind != METRIC_HISTOGRAM && bounds != NULL)
    return error_new(ERROR_INVALID_ARG, "Unexpected args found in %s Metric constructor.",
                     kind == METRIC_COUNTER ? "counter" : "gauge");
  if (kind != METRIC_HISTOGRAM)
    return NULL;
  if (bounds == NULL)
    return error_new(ERROR_INVALID_ARG, "Bucket boundaries not found in Metric args.");
  for (size_t i = 1; i < bounds->count; i++)
    if (!(bounds->bounds[i - 1] < bounds->bounds[i]))
      return error_new(ERROR_INVALID_ARG, "Bucket Boundaries must be strictly sorted");
  return NULL;
}

static error *check_labels(metric_kind kind, const metric_label *labels, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    bool reserved = kind == METRIC_HISTOGRAM && strcmp(labels[i].name, "le") == 0;
    if (reserved || !metrics_is_label_name(labels[i].name))
      return error_new(ERROR_INVALID_ARG, "Invalid label name");
    for (size_t j = 0; j < i; j++)
      if (strcmp(labels[i].name, labels[j].name) == 0)
        return error_new(ERROR_INVALID_ARG, "label '%s' given twice", labels[i].name);
  }
  return NULL;
}

// Finds or makes the metric with these rendered labels. Locked.
static metric_entry *get_metric_entry(family_entry *family, char *labels_owned,
                                      const metric_bounds *bounds)
{
  metric_entry *entry = string_map_get(&family->metrics, slice_of(labels_owned));
  if (entry != NULL) {
    free(labels_owned);
    return entry;
  }
  entry = make_metric_entry(labels_owned, bounds);
  if (entry != NULL && !string_map_put(&family->metrics, slice_of(entry->labels), entry)) {
    free_metric_entry(entry);
    entry = NULL;
  }
  return entry;
}

error *metric_new(metric_family *family, const metric_label *labels, size_t label_count,
                  const metric_bounds *bounds, metric **m)
{
  RETURN_IF_ERROR(check_bounds(family->entry->kind, bounds));
  RETURN_IF_ERROR(check_labels(family->entry->kind, labels, label_count));
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  char *rendered =
      metrics_render_labels(&text, labels, label_count) ? buffer_take_text(&text) : NULL;
  metric *made = malloc(sizeof(*made));
  if (rendered == NULL || made == NULL) {
    free(rendered);
    free(made);
    return error_no_memory();
  }
  LOCK_SCOPE(&family->registry->family_lock);
  metric_entry *entry = get_metric_entry(family->entry, rendered, bounds);
  if (entry == NULL) {
    free(made);
    return error_no_memory();
  }
  entry->handles++;
  family->metric_count++;
  *made = (metric){.family = family, .entry = entry};
  *m = made;
  return NULL;
}

void metric_free(metric *m_owned)
{
  metric_family *family = m_owned->family;
  metric_entry *entry = m_owned->entry;
  pthread_mutex_lock(&family->registry->family_lock);
  family->metric_count--;
  if (--entry->handles == 0) {
    string_map_remove(&family->entry->metrics, slice_of(entry->labels));
    free_metric_entry(entry);
  }
  pthread_mutex_unlock(&family->registry->family_lock);
  free(m_owned);
}

metric_kind metric_get_kind(const metric *m)
{
  return m->family->entry->kind;
}

static error *unsupported(const metric *m, const char *operation)
{
  return error_new(ERROR_UNSUPPORTED, "%s does not support %s", kind_names[metric_get_kind(m)],
                   operation);
}

// Relaxed: each value is independent and publishes nothing else.
static void add(_Atomic double *value, double amount)
{
  double before = atomic_load_explicit(value, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(value, &before, before + amount,
                                                memory_order_relaxed, memory_order_relaxed)) {
  }
}

error *metric_value(const metric *m, double *value)
{
  if (metric_get_kind(m) == METRIC_HISTOGRAM)
    return unsupported(m, "Value");
  *value = atomic_load_explicit(&m->entry->value, memory_order_relaxed);
  return NULL;
}

error *metric_increment(metric *m, double value)
{
  if (metric_get_kind(m) == METRIC_HISTOGRAM)
    return unsupported(m, "Increment");
  if (metric_get_kind(m) == METRIC_COUNTER && value < 0)
    return error_new(ERROR_INVALID_ARG, "TRITONSERVER_METRIC_KIND_COUNTER can only be incremented "
                                        "monotonically by non-negative values.");
  add(&m->entry->value, value);
  return NULL;
}

error *metric_set(metric *m, double value)
{
  if (metric_get_kind(m) != METRIC_GAUGE)
    return unsupported(m, "Set");
  atomic_store_explicit(&m->entry->value, value, memory_order_relaxed);
  return NULL;
}

error *metric_observe(metric *m, double value)
{
  if (metric_get_kind(m) != METRIC_HISTOGRAM)
    return unsupported(m, "Observe");
  metric_entry *entry = m->entry;
  size_t bucket = 0;
  while (bucket < entry->bound_count && !(value <= entry->bounds[bucket]))
    bucket++;
  atomic_fetch_add_explicit(&entry->counts[bucket], 1, memory_order_relaxed);
  add(&entry->value, value);
  return NULL;
}

// --- Printing

// Adds a histogram's samples. False when memory is short.
static bool print_histogram(metrics_family *family, const metric_entry *entry)
{
  uint64_t *counts = calloc(entry->bound_count + 1, sizeof(*counts));
  if (counts == NULL)
    return false;
  for (size_t i = 0; i <= entry->bound_count; i++)
    counts[i] = atomic_load_explicit(&entry->counts[i], memory_order_relaxed);
  metrics_family_add_histogram(family, slice_of(entry->labels), entry->bounds, counts,
                               entry->bound_count,
                               atomic_load_explicit(&entry->value, memory_order_relaxed));
  free(counts);
  return true;
}

static void print_family(const family_entry *entry, metrics_sheet *sheet)
{
  metrics_family *family = metrics_sheet_family(sheet, entry->kind, entry->name, entry->help);
  const string_map_entry *e;
  for (size_t i = 0; (e = string_map_walk(&entry->metrics, &i)) != NULL;) {
    const metric_entry *m = e->value;
    if (entry->kind != METRIC_HISTOGRAM)
      metrics_family_add(family, slice_of(m->labels),
                         atomic_load_explicit(&m->value, memory_order_relaxed));
    else if (!print_histogram(family, m))
      sheet->failed = true;
  }
}

error *metrics_registry_print(metrics_registry *registry, buffer *text)
{
  metrics_sheet sheet = METRICS_SHEET_EMPTY;
  pthread_mutex_lock(&registry->collector_lock);
  for (const metrics_collector *c = registry->collectors; c != NULL; c = c->next)
    c->collect(c->context, &sheet);
  pthread_mutex_unlock(&registry->collector_lock);

  pthread_mutex_lock(&registry->family_lock);
  const string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&registry->families, &i)) != NULL;)
    print_family(entry->value, &sheet);
  pthread_mutex_unlock(&registry->family_lock);
  bool complete = metrics_sheet_print(&sheet, text);
  metrics_sheet_fini(&sheet);
  return complete ? NULL : error_no_memory();
}
