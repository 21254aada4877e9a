// SPDX-License-Identifier: Apache-2.0
// What becomes of models when a GPU fails: the instances on it take nothing more, and a model that
// has no other refuses at once. docs/internals/gpu.md
#ifndef NEREID_CORE_GPU_REFUSAL_H
#define NEREID_CORE_GPU_REFUSAL_H

#include "core/server.h"

// Has the server's GPUs watched, where it has any.
error *server_watch_gpus(server *s);

#endif
