// SPDX-License-Identifier: Apache-2.0
// Metrics of labels, splits and shadows. Runs on the scraper's thread.
#ifndef NEREID_CORE_ROUTING_METRICS_H
#define NEREID_CORE_ROUTING_METRICS_H

#include "core/model_table.h"
#include "metrics/exposition.h"

// Adds the rules of all models that have, or had, some.
void routing_metrics_collect(model_table *models, metrics_sheet *sheet);

#endif
