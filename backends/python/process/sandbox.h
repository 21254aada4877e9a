// SPDX-License-Identifier: Apache-2.0
// What a worker is kept from, as the backend's settings say, and the command line and variables
// with which it is started so: see launcher/launcher.h.
#ifndef NEREID_PYTHON_SANDBOX_H
#define NEREID_PYTHON_SANDBOX_H

#include "base/string_list.h"
#include "pyenv/interpreter.h"

#include <stdbool.h>

typedef struct worker_sandbox {
  bool strict;
  int64_t processes, descriptors, memory_bytes, file_bytes; // 0: as many as the server may have
  int64_t scratch_bytes;
  int64_t shared_bytes; // that the server shares with one worker at a time
  char *read_paths;     // strict: "/a:/b", NULL: none
} worker_sandbox;

// `settings` are the backend's. After an error `self` needs its end too.
TRITONSERVER_Error *worker_sandbox_init(worker_sandbox *self, const json_t *settings);
void worker_sandbox_fini(worker_sandbox *self); // all zero: nothing
bool worker_sandbox_has_setting(const char *key);

// What a worker is made of: directories, but for the model's file.
typedef struct worker_paths {
  const char *backend;       // the launcher and worker/
  const char *backend_model; // of a backend that is written in Python, or NULL
  const char *model;
  const char *model_file;
} worker_paths;

// The argument vector that starts a worker. string_list_fini() follows, also after an error.
TRITONSERVER_Error *worker_command_init(string_list *line, const worker_sandbox *self,
                                        const worker_paths *paths,
                                        const python_interpreter *python);

// Its environment variables: the server's but for a few, with the number of threads for numeric
// libraries, and what makes the programs of the model's environment be found.
// `threads` (at least 1 is taken) is for libraries whose variable the user has not set. With
// `strict` only variables of known names are passed. string_list_fini() follows, also after an
// error.
TRITONSERVER_Error *worker_variables_init(string_list *to, const python_interpreter *python,
                                          int64_t threads, bool strict);

#endif
