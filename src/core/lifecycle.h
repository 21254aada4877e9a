// Loading and unloading of models: from a directory to versions that are served, and back. A load
// is begun on one thread, done by the load pool, and awaited by whoever began it.
#ifndef NEREID_CORE_LIFECYCLE_H
#define NEREID_CORE_LIFECYCLE_H

#include "base/error.h"
#include "core/server.h"
#include "repository/repository.h"
#include "repository/upload.h"

typedef struct load_operation load_operation;

// Begins to load `found`. *operation is NULL when nothing needs to be done, also on error. Errors:
// INTERNAL "failed to load '…', failed to poll from model repository: …" for a directory or
// configuration that cannot be read, INVALID_ARG for the override or when no version is to be
// served.
// `files`, which `found` then names, are the model's as long as it is served; NULL: they are a
// repository's.
error *lifecycle_begin_load(server *s, const repository_model *found, const char *config_json,
                            upload *files, load_operation **operation);

// Waits until the load is done and releases the operation. INVALID_ARG "load failed for model …".
error *lifecycle_await_load(load_operation *operation);

void lifecycle_unload(server *s, model_entry *entry);

// Begins all start-up models and waits for them. INTERNAL "failed to load all models".
error *lifecycle_load_startup_models(server *s);

// For live_models: the version that `identity` was is gone.
void lifecycle_model_gone(void *server_pointer, const char *name, int64_t version,
                          const model *identity);

// Drops all models; requests inside are served.
void lifecycle_unload_all(server *s);

#endif
