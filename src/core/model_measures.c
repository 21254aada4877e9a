// SPDX-License-Identifier: Apache-2.0
// A model's labels, histogram and summaries. Runs on load threads.
#include "core/model_measures.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/string_map.h"
#include "metrics/exposition.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOLD_BYTES 1000 // of keys that are left out
// ---- labels ----

// '_' and the key, as in Triton; for free(). NULL when memory is short.
static char *label_of(const char *key)
{
  size_t size = strlen(key) + 2;
  char *name = malloc(size);
  if (name != NULL)
    snprintf(name, size, "_%s", key);
  return name;
}

typedef struct tag_labels {
  metric_label *labels; // room for all tags and three more
  size_t count;
  buffer unfit; // keys that are left out; logged
} tag_labels;

static error *add_tag(tag_labels *tags, const char *key, const char *value)
{
  char *name = label_of(key);
  if (name == NULL)
    return error_no_memory();
  if (metrics_is_label_name(name)) {
    tags->labels[tags->count++] = (metric_label){name, value};
    return NULL;
  }
  free(name);
  if (tags->unfit.size < MAX_TOLD_BYTES)
    buffer_append_format(&tags->unfit, "%s'%.100s'", tags->unfit.size > 0 ? ", " : "", key);
  return NULL;
}

// When a key is given twice, the last value counts.
static error *add_tags(tag_labels *tags, const Inference__ModelConfig *config)
{
  string_map values = {0};
  error *e = NULL;
  for (size_t i = 0; e == NULL && i < config->n_metric_tags; i++)
    if (!string_map_put(&values, slice_of(config->metric_tags[i]->key),
                        config->metric_tags[i]->value))
      e = error_no_memory();
  const string_map_entry *entry;
  for (size_t i = 0; e == NULL && (entry = string_map_walk(&values, &i)) != NULL;)
    e = add_tag(tags, entry->key, entry->value);
  string_map_fini(&values);
  return e;
}

// Renders model, namespace (unless NULL), version, and the configuration's tags.
static error *render(tag_labels *tags, const request_target *target, const char *namespace,
                     char **rendered)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  char version[32];
  size_t count = tags->count;
  snprintf(version, sizeof(version), "%" PRId64, target->version);
  tags->labels[count++] = (metric_label){"model", target->name};
  if (namespace != NULL)
    tags->labels[count++] = (metric_label){"namespace", namespace};
  tags->labels[count++] = (metric_label){"version", version};
  *rendered = metrics_render_labels(&text, tags->labels, count) ? buffer_take_text(&text) : NULL;
  return *rendered == NULL ? error_no_memory() : NULL;
}

static error *make_labels(const Inference__ModelConfig *config, const request_target *target,
                          const char *namespace, char **rendered)
{
  tag_labels tags = {.labels = calloc(config->n_metric_tags + 3, sizeof(*tags.labels))};
  error *e = tags.labels == NULL ? error_no_memory() : NULL;
  if (e == NULL)
    e = add_tags(&tags, config);
  if (e == NULL)
    e = render(&tags, target, namespace, rendered);
  if (e == NULL && tags.unfit.size > 0)
    log_warning("model '%s' (version %" PRId64 "): its metrics leave out what of 'metric_tags' is "
                "no label of Prometheus (letters, digits and '_', not '_' first): %.*s",
                target->name, target->version, (int)tags.unfit.size, tags.unfit.data);
  for (size_t i = 0; i < tags.count; i++)
    free((char *)tags.labels[i].name);
  free(tags.labels);
  buffer_fini(&tags.unfit);
  return e;
}

// ---- the histogram of first responses ----

typedef struct bucket_bounds {
  const double *bounds;
  size_t count;
} bucket_bounds;

// The last bounds of the model's configuration, or else `chosen`.
static bucket_bounds choose_bounds(const Inference__ModelConfig *config, bucket_bounds chosen)
{
  const Inference__ModelMetrics *metrics = config->model_metrics;
  for (size_t i = 0; metrics != NULL && i < metrics->n_metric_control; i++) {
    const Inference__ModelMetrics__MetricControl *control = metrics->metric_control[i];
    const Inference__ModelMetrics__MetricControl__HistogramOptions *options =
        control->histogram_options;
    const char *why = config_metric_in_vain(control);
    if (why != NULL)
      log_warning("model '%s': Metric family '%s' in 'metric_identifier' %s", config->name,
                  control->metric_identifier->family, why);
    else
      chosen = (bucket_bounds){options->buckets, options->n_buckets};
  }
  return chosen;
}

static error *make_first_response(const metric_settings *settings,
                                  const Inference__ModelConfig *config, request_target *target)
{
  static const double triton[] = {100, 500, 2000, 5000};
  static const double all[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 30000};
  bucket_bounds bounds = settings->first_response
                             ? (bucket_bounds){triton, sizeof(triton) / sizeof(triton[0])}
                             : (bucket_bounds){all, sizeof(all) / sizeof(all[0])};
  bounds = choose_bounds(config, bounds);
  if (!settings->first_response && settings->histograms != HISTOGRAMS_ALL)
    return NULL;
  target->first_response = response_histogram_new(bounds.bounds, bounds.count);
  return target->first_response == NULL ? error_no_memory() : NULL;
}

// ---- all ----

error *model_measures_make(const metric_settings *settings, const Inference__ModelConfig *config,
                           request_target *target, const char *namespace, char **labels)
{
  if (!settings->enabled)
    return NULL;
  RETURN_IF_ERROR(make_labels(config, target, namespace, labels));
  RETURN_IF_ERROR(make_first_response(settings, config, target));
  if (settings->summaries && (target->summaries = latency_summaries_new()) == NULL)
    return error_no_memory();
  return NULL;
}

void model_measures_free(request_target *target, char *labels)
{
  free(labels);
  response_histogram_free(target->first_response);
  latency_summaries_free(target->summaries);
}
