// Which Python runs a model.
#ifndef NEREID_PYTHON_ENVIRONMENT_H
#define NEREID_PYTHON_ENVIRONMENT_H

#include "triton/core/tritonserver.h"

#include <jansson.h>

// Finds the interpreter: `setting` (an absolute path, or a name to look for in PATH), or python3 in
// PATH when it is NULL. `*interpreter` is an absolute path, for free(); links in it stay, since a
// virtual environment is told by the link. The model's configuration and folder are for
// EXECUTION_ENV_PATH.
TRITONSERVER_Error *python_environment_find(const char *setting, const json_t *model_config,
                                            const char *model_folder, char **interpreter);

#endif
