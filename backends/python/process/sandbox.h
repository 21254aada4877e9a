// SPDX-License-Identifier: Apache-2.0
// The limits of a worker's process by the backend's settings, and the command line and variables
// that start it with them: see launcher/launcher.h.
#ifndef NEREID_PYTHON_SANDBOX_H
#define NEREID_PYTHON_SANDBOX_H

#include "base/string_list.h"
#include "pyenv/interpreter.h"

#include <stdbool.h>

typedef struct worker_sandbox {
  bool strict;
  int64_t processes, descriptors, memory_bytes, file_bytes; // 0: the server's own limit
  int64_t scratch_bytes;
  int64_t shared_bytes; // shared with one worker at a time
  char *read_paths;     // strict: "/a:/b", NULL: none
} worker_sandbox;

// `settings` are the backend's. Call worker_sandbox_fini even after an error.
TRITONSERVER_Error *worker_sandbox_init(worker_sandbox *self, const json_t *settings);
void worker_sandbox_fini(worker_sandbox *self); // does nothing when all members are zero
bool worker_sandbox_has_setting(const char *key);

// The paths that a worker needs: directories, except the model's file.
typedef struct worker_paths {
  const char *backend;       // the launcher and worker/
  const char *backend_model; // of a backend that is written in Python, or NULL
  const char *model;
  const char *model_file;
} worker_paths;

// The argument vector that starts a worker. Call string_list_fini() even after an error.
TRITONSERVER_Error *worker_command_init(string_list *line, const worker_sandbox *self,
                                        const worker_paths *paths,
                                        const python_interpreter *python);

// The worker's environment variables: the server's except a few, the number of threads for numeric
// libraries, and the search path of the model's environment. `threads` (at least 1) is for
// libraries whose variable the user has not set. With `strict` only known variables are passed.
// Call string_list_fini() even after an error.
TRITONSERVER_Error *worker_variables_init(string_list *to, const python_interpreter *python,
                                          int64_t threads, bool strict);

#endif
