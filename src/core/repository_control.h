// SPDX-License-Identifier: Apache-2.0
// Repositories that come and go while the server runs, as the embedding program wishes. Any thread.
#ifndef NEREID_CORE_REPOSITORY_CONTROL_H
#define NEREID_CORE_REPOSITORY_CONTROL_H

#include "core/server.h"
#include "repository/repository_set.h"

// UNSUPPORTED unless models are controlled explicitly; else as repository_set_add and
// repository_set_remove.
error *server_register_repository(server *s, const char *path, const repository_mapping *mappings,
                                  size_t mapping_count);
error *server_unregister_repository(server *s, const char *path);

#endif
