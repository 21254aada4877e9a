// SPDX-License-Identifier: Apache-2.0
// Which Python runs a model: that of the environment which the model's configuration names
// (EXECUTION_ENV_PATH: a directory or an archive), that of the backend's settings, that of the
// environment NEREID_PYTHON_ENV, or python3 in PATH.
#ifndef NEREID_PYTHON_INTERPRETER_H
#define NEREID_PYTHON_INTERPRETER_H

#include "pyenv/cache.h"

#include <jansson.h>

typedef enum environment_kind {
  ENVIRONMENT_NONE,    // an installed Python
  ENVIRONMENT_VIRTUAL, // venv
  ENVIRONMENT_CONDA,   // or any other directory with bin/ and lib/
} environment_kind;

typedef struct python_interpreter {
  char *path; // absolute; links stay, since a virtual environment is told by the link
  char *dir;  // NULL with ENVIRONMENT_NONE
  environment_kind kind;
  environment_cache *cache;
  cached_environment *archive; // held; NULL: not unpacked by us
} python_interpreter;

// `setting` is an absolute path, a name to look for in PATH, or NULL. `model_dir` is what
// $$TRITON_MODEL_DIRECTORY stands for. `self` need not be initialized; after an error it needs no
// end.
TRITONSERVER_Error *python_interpreter_init(python_interpreter *self, environment_cache *cache,
                                            const char *setting, const json_t *model_config,
                                            const char *model_dir);
void python_interpreter_fini(python_interpreter *self); // all zero: nothing

#endif
