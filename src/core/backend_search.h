// Where a model's backend library is, and the settings that the backend sees.
#ifndef NEREID_CORE_BACKEND_SEARCH_H
#define NEREID_CORE_BACKEND_SEARCH_H

#include "backend/backend.h"
#include "core/model.h"

// Finds the library of the model's backend: <model>/<version>/, <model>/,
// <backend-directory>/<backend>/ in this order, by the configuration's `runtime` or
// libtriton_<backend>.so; loads it. Where there is none, or the runtime is model.py,
// <backend-directory>/<backend>/model.py is the backend and libtriton_python.so runs it; then the
// configuration gets its runtime and its execution environment. Errors: INVALID_ARG when there is
// none or the name leads out.
error *backend_search(const model_environment *environment, const model_source *source,
                      backend **b);

#endif
