// Which Python runs a model: that of the environment which the model's configuration names
// (EXECUTION_ENV_PATH: a directory or an archive), that of the backend's settings, or python3 in
// PATH.
#ifndef NEREID_PYTHON_ENVIRONMENT_H
#define NEREID_PYTHON_ENVIRONMENT_H

#include "pyenv/cache.h"

#include <jansson.h>

typedef enum environment_kind {
  ENVIRONMENT_NONE,    // an installed Python
  ENVIRONMENT_VIRTUAL, // venv
  ENVIRONMENT_CONDA,   // or any other directory with bin/ and lib/
} environment_kind;

typedef struct python_environment {
  char *interpreter; // absolute; links stay, since a virtual environment is told by the link
  char *dir;         // NULL with ENVIRONMENT_NONE
  environment_kind kind;
  environment_cache *cache;
  cached_environment *archive; // held; NULL: not unpacked by us
} python_environment;

// `setting` is an absolute path, a name to look for in PATH, or NULL. `model_dir` is what
// $$TRITON_MODEL_DIRECTORY stands for. `self` need not be initialized; after an error it needs no
// end.
TRITONSERVER_Error *python_environment_init(python_environment *self, environment_cache *cache,
                                            const char *setting, const json_t *model_config,
                                            const char *model_dir);
void python_environment_fini(python_environment *self); // all zero: nothing

#endif
