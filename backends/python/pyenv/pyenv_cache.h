// SPDX-License-Identifier: Apache-2.0
// Unpacked archives of Python environments. Each archive, in its current state, has one directory,
// shared by the models that name it; it is unpacked once and removed with its last user. The
// directories are below a private directory that is removed with the cache. Load threads.
#ifndef NEREID_PYTHON_PYENV_CACHE_H
#define NEREID_PYTHON_PYENV_CACHE_H

#include "pyenv/unpack.h"

typedef struct environment_cache environment_cache;
typedef struct cached_environment cached_environment; // one use of a directory

// Makes the private directory in `parent`; NULL: TMPDIR, or /tmp.
TRITONSERVER_Error *environment_cache_new(const char *parent, const unpack_limits *limits,
                                          environment_cache **result);

// No use may be left. NULL does nothing.
void environment_cache_free(environment_cache *self);

// Returns a use of the unpacked archive at `path`; waits while another thread unpacks it.
TRITONSERVER_Error *environment_cache_take(environment_cache *self, const char *path,
                                           cached_environment **result);
const char *cached_environment_dir(const cached_environment *self);
void environment_cache_release(environment_cache *self, cached_environment *use);

#endif
