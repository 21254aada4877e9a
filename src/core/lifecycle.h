// SPDX-License-Identifier: Apache-2.0
// Loading and unloading of models: from a directory to versions that are served, and back. One
// thread begins a load, the load pool does it, and the first thread awaits it.
#ifndef NEREID_CORE_LIFECYCLE_H
#define NEREID_CORE_LIFECYCLE_H

#include "core/load_operation.h"

// Begins a load. *operation is NULL when nothing needs to be done, also on error. Errors:
// INTERNAL "failed to load '…', failed to poll from model repository: …" for a directory or
// configuration that cannot be read. INVALID_ARG for the override, when no version is to be served,
// or when an ensemble does not fit its steps' models; the ensemble is then unloaded.
error *lifecycle_begin_load(server *s, const load_wish *wish, load_operation **operation);

// Waits until the load is done and releases the operation. INVALID_ARG "load failed for model …".
error *lifecycle_await_load(load_operation *operation);

// Whether lifecycle_await_load would not wait.
bool lifecycle_load_is_done(const load_operation *operation);

void lifecycle_unload(server *s, model_entry *entry);

// Unloads the model if nobody uses, loads or unloads it and `may_go` agrees, which is called while
// nobody else can load or unload it. False: nothing has happened.
typedef bool unload_condition(server *s, const model_entry *entry);
bool lifecycle_unload_idle(server *s, model_entry *entry, unload_condition *may_go);

// For live_models: the version with this identity is gone.
void lifecycle_model_gone(void *server_pointer, const char *name, int64_t version,
                          const model *identity, bool was_loaded);

// Drops all models; requests inside are served.
void lifecycle_unload_all(server *s);

#endif
