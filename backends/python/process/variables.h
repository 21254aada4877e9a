// The environment variables of worker processes: the server's but for a few, with the number of
// threads for numeric libraries, and what makes the programs of the model's environment be found.
#ifndef NEREID_PYTHON_VARIABLES_H
#define NEREID_PYTHON_VARIABLES_H

#include "base/string_list.h"
#include "pyenv/interpreter.h"

#include <stdbool.h>
#include <stdint.h>

// `threads` (at least 1 is taken) is for libraries whose variable the user has not set. With
// `strict` only variables of known names are passed. string_list_fini() follows, also after an
// error.
TRITONSERVER_Error *worker_variables_init(string_list *to, const python_interpreter *python,
                                          int64_t threads, bool strict);

#endif
