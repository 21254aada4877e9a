// SPDX-License-Identifier: Apache-2.0
// What metrics show of labels, splits and shadows. Runs on the scraper's thread.
#ifndef NEREID_CORE_ROUTING_METRICS_H
#define NEREID_CORE_ROUTING_METRICS_H

#include "core/model_table.h"
#include "metrics/exposition.h"

// Of the models that have rules, or had some.
void routing_metrics_collect(model_table *models, metrics_sheet *sheet);

#endif
