// SPDX-License-Identifier: Apache-2.0
// Models on a GPU that fails: the instances on it take nothing more, and a model that has no other
// instances refuses at once. docs/internals/gpu.md
#ifndef NEREID_CORE_GPU_REFUSAL_H
#define NEREID_CORE_GPU_REFUSAL_H

#include "core/server.h"

// Begins to watch the server's GPUs, if it has any.
error *server_watch_gpus(server *s);

#endif
