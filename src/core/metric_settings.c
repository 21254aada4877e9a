// SPDX-License-Identifier: Apache-2.0
// Reads the settings of the metrics. Runs on the thread that makes the server.
#include "core/metric_settings.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *text, const char *name)
{
  return strcmp(text, name) == 0;
}

// ---- quantiles ----

// Reads "quantile:error" into *quantile. Returns NULL, or what is wrong, in Triton's words where it
// has some. The error only has to be a number: sliding_quantiles.h has its own precision.
static const char *read_quantile(const char *pair, double *quantile)
{
  const char *colon = strchr(pair, ':');
  char *end;
  if (colon == NULL)
    return "No ':' delimiter found. Expected format is <quantile>:<error>";
  *quantile = number_strtod(pair, &end);
  if (end == pair || end > colon)
    return "Error: stod";
  number_strtod(colon + 1, &end);
  if (end == colon + 1)
    return "Error: stod";
  return isfinite(*quantile) ? NULL : "The quantile is not a number";
}

static bool has_quantile(const metric_settings *settings, double quantile)
{
  for (size_t i = 0; i < settings->quantile_count; i++)
    if (settings->quantiles[i] == quantile)
      return true;
  return false;
}

static void add_quantile(metric_settings *settings, const char *pair)
{
  double quantile = 0;
  const char *fault = read_quantile(pair, &quantile);
  if (fault == NULL && has_quantile(settings, quantile))
    fault = "The quantile was given before";
  if (fault != NULL)
    log_error("--metrics-config summary_quantiles: Invalid option: [%s]. %s", pair, fault);
  else
    settings->quantiles[settings->quantile_count++] = quantile;
}

// If no pair is good, the quantiles from before stay.
static error *read_quantiles(const char *list, metric_settings *settings)
{
  char *copy AUTO_FREE = strdup(list);
  metric_settings read = {.quantiles = calloc(strlen(list) + 1, sizeof(double))};
  char *rest = copy;
  if (copy == NULL || read.quantiles == NULL) {
    free(read.quantiles);
    return error_no_memory();
  }
  while (rest != NULL && *rest != '\0')
    add_quantile(&read, strsep(&rest, ","));
  if (read.quantile_count == 0) {
    free(read.quantiles);
    return NULL;
  }
  free(settings->quantiles);
  settings->quantiles = read.quantiles;
  settings->quantile_count = read.quantile_count;
  return NULL;
}

// ---- settings ----

// Only the value that changes the default has an effect, in whatever order values are given.
static void read_switch(const setting *s, bool *on, const char *effective)
{
  if (is(s->value, effective))
    *on = is(effective, "true");
  else if (!is(s->value, "true") && !is(s->value, "false"))
    log_warning("--metrics-config %s=%s has no effect, expected true or false", s->name, s->value);
}

static error *read_histograms(const char *value, histogram_choice *choice)
{
  static const char *const names[] = {
      [HISTOGRAMS_NONE] = "none", [HISTOGRAMS_FEW] = "few", [HISTOGRAMS_ALL] = "all"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (is(value, names[i])) {
      *choice = (histogram_choice)i;
      return NULL;
    }
  return error_new(ERROR_INVALID_ARG,
                   "--metrics-config nereid_histograms: invalid value '%s', expected none, few or "
                   "all",
                   value);
}

static error *read_setting(const setting *s, metric_settings *settings)
{
  if (!is(s->group, "")) {
    log_warning("--metrics-config %s,%s=%s has no effect: metrics have no groups", s->group,
                s->name, s->value);
    return NULL;
  }
  if (is(s->name, "nereid_histograms"))
    return read_histograms(s->value, &settings->histograms);
  if (is(s->name, "summary_quantiles"))
    return read_quantiles(s->value, settings);
  if (is(s->name, "counter_latencies"))
    read_switch(s, &settings->counters, "false");
  else if (is(s->name, "histogram_latencies"))
    read_switch(s, &settings->first_response, "true");
  else if (is(s->name, "summary_latencies"))
    read_switch(s, &settings->summaries, "true");
  else
    log_warning("--metrics-config %s=%s has no effect: there is no such setting", s->name,
                s->value);
  return NULL;
}

error *metric_settings_read(const server_options *options, metric_settings *settings)
{
  *settings = (metric_settings){
      .enabled = options->metrics, .counters = true, .histograms = HISTOGRAMS_FEW};
  error *e = read_quantiles("0.5:0.05,0.9:0.01,0.95:0.001,0.99:0.001,0.999:0.001", settings);
  for (size_t i = 0; e == NULL && i < options->metrics_settings.count; i++)
    e = read_setting(&options->metrics_settings.items[i], settings);
  if (e != NULL)
    metric_settings_fini(settings);
  return e;
}

void metric_settings_fini(metric_settings *settings)
{
  free(settings->quantiles);
  *settings = (metric_settings){0};
}
