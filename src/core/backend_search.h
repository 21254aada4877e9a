// SPDX-License-Identifier: Apache-2.0
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
// none or the name leads out. For a model that is to have a process of its own *b is the backend
// that sees to that, and *real, which is empty before and the caller's, what was found.
error *backend_search(const model_environment *environment, const model_source *source, backend **b,
                      backend_choice *real);

// The same error where there is none, and opens nothing: for who only wants to know. Uses of
// `environment` the options alone.
error *backend_is_there(const model_environment *environment, const model_source *source);

// The path of the regular file `file` in the first of those directories that has it, for free();
// NULL: none has.
error *backend_search_file(const model_environment *environment, const model_source *source,
                           const char *file, char **path);

#endif
