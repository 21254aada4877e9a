// SPDX-License-Identifier: Apache-2.0
// Unpacked archives of Python environments: one directory for each archive as it is now, shared by
// the models that name it, unpacked once, removed with its last user. They are below a private
// directory that ends with the cache. Load threads.
#ifndef NEREID_PYTHON_CACHE_H
#define NEREID_PYTHON_CACHE_H

#include "pyenv/unpack.h"

typedef struct environment_cache environment_cache;
typedef struct cached_environment cached_environment; // a use of one

// Directories are made in `parent`, NULL: TMPDIR, or /tmp.
TRITONSERVER_Error *environment_cache_new(const char *parent, const unpack_limits *limits,
                                          environment_cache **result);

// There is no use left. NULL does nothing.
void environment_cache_free(environment_cache *self);

// Gives the unpacked archive at `path`, which another may be unpacking.
TRITONSERVER_Error *environment_cache_take(environment_cache *self, const char *path,
                                           cached_environment **result);
const char *cached_environment_dir(const cached_environment *self);
void environment_cache_release(environment_cache *self, cached_environment *use);

#endif
