// SPDX-License-Identifier: Apache-2.0
// A model's metrics beside the counters: rendered labels, and the histograms and summaries that
// settings or its configuration ask for. Made on the load thread, constant afterwards.
#ifndef NEREID_CORE_MODEL_MEASURES_H
#define NEREID_CORE_MODEL_MEASURES_H

#include "base/error.h"
#include "config/config.h"
#include "core/metric_settings.h"
#include "request/target.h"

// Fills target->summaries, target->first_response and *labels (rendered, without the braces) if
// there are metrics. Tags that Prometheus could not read are left out, and logged. `namespace` is
// the model's, or NULL. Errors: UNAVAILABLE, memory is short; what was made still belongs to the
// model.
error *model_measures_make(const metric_settings *settings, const Inference__ModelConfig *config,
                           request_target *target, const char *namespace, char **labels);
void model_measures_free(request_target *target, char *labels);

#endif
