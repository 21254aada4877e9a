// SPDX-License-Identifier: Apache-2.0
// Where a model's backend library is, and the settings that the backend sees.
#ifndef NEREID_CORE_BACKEND_SEARCH_H
#define NEREID_CORE_BACKEND_SEARCH_H

#include "backend/backend.h"
#include "core/model.h"

// Finds and loads the library of the model's backend. The file is the configuration's `runtime`, or
// libtriton_<backend>.so; the directories are <model>/<version>/, <model>/ and
// <backend-directory>/<backend>/, in this order. Without a library, or with the runtime model.py,
// <backend-directory>/<backend>/model.py is the backend and libtriton_python.so runs it; the
// configuration then gets its runtime and execution environment. For a model in a process of its
// own, *b is the backend that manages the process, and *real, which is empty before and the
// caller's, what was found. INVALID_ARG when there is no library or the name leads out.
error *backend_search(const model_environment *environment, const model_source *source, backend **b,
                      backend_choice *real);

// Gives the same errors, but loads nothing. Uses only the options of `environment`.
error *backend_is_there(const model_environment *environment, const model_source *source);

// The path of the regular file `file` in the first of those directories that has it, for free();
// NULL: no directory has it.
error *backend_search_file(const model_environment *environment, const model_source *source,
                           const char *file, char **path);

#endif
