// What a model keeps for its metrics beside the counters: its labels, rendered once, and what
// settings or its configuration ask for. Made on the load thread, constant afterwards.
#ifndef NEREID_CORE_MODEL_MEASURES_H
#define NEREID_CORE_MODEL_MEASURES_H

#include "base/error.h"
#include "core/model.h"

// Fills m->metric_labels, m->target.summaries and m->target.first_response as far as there are
// metrics. What of the configuration Prometheus could not read is left out, and the log says so.
// Errors: UNAVAILABLE, memory is short; what was made is the model's all the same.
error *model_measures_make(model *m);
void model_measures_free(model *m);

#endif
