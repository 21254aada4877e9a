// SPDX-License-Identifier: Apache-2.0
// Chooses the Python of a model: that of the environment in the model's configuration
// (EXECUTION_ENV_PATH: a directory or an archive), that of the backend's settings, that of the
// environment NEREID_PYTHON_ENV, or python3 in PATH.
#ifndef NEREID_PYTHON_INTERPRETER_H
#define NEREID_PYTHON_INTERPRETER_H

#include "pyenv/pyenv_cache.h"

#include <jansson.h>

typedef enum environment_kind {
  ENVIRONMENT_NONE,    // an installed Python
  ENVIRONMENT_VIRTUAL, // venv
  ENVIRONMENT_CONDA,   // or any other directory with bin/ and lib/
} environment_kind;

typedef struct python_interpreter {
  char *path; // absolute; links stay, because a virtual environment is recognized by its link
  char *dir;  // NULL with ENVIRONMENT_NONE
  environment_kind kind;
  environment_cache *cache;
  cached_environment *archive; // held; NULL: not unpacked by the cache
} python_interpreter;

// `setting` is an absolute path, a name to look for in PATH, or NULL. `model_dir` replaces
// $$TRITON_MODEL_DIRECTORY. `self` need not be initialized; after an error it needs no fini.
TRITONSERVER_Error *python_interpreter_init(python_interpreter *self, environment_cache *cache,
                                            const char *setting, const json_t *model_config,
                                            const char *model_dir);
void python_interpreter_fini(python_interpreter *self); // does nothing when all members are zero

#endif
