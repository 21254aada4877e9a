// SPDX-License-Identifier: Apache-2.0
// The settings of --metrics-config: read once when the server is made, constant afterwards.
#ifndef NEREID_CORE_METRIC_SETTINGS_H
#define NEREID_CORE_METRIC_SETTINGS_H

#include "base/error.h"
#include "core/server_options.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum histogram_choice { // nereid_histograms
  HISTOGRAMS_NONE,
  HISTOGRAMS_FEW, // the default: what stays cheap with thousands of models
  HISTOGRAMS_ALL,
} histogram_choice;

typedef struct metric_settings {
  bool enabled;        // there are metrics at all
  bool counters;       // counter_latencies
  bool first_response; // histogram_latencies
  bool summaries;      // summary_latencies
  histogram_choice histograms;
  double *quantiles; // of summary_quantiles, in that order
  size_t quantile_count;
} metric_settings;

// As in Triton, invalid settings are ignored; here the log says so. INVALID_ARG for an invalid
// value of nereid's own setting.
error *metric_settings_read(const server_options *options, metric_settings *settings);
void metric_settings_fini(metric_settings *settings);

#endif
