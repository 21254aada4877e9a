// SPDX-License-Identifier: Apache-2.0
// What a server says about itself and its models. Any thread; look-ups hold one entry's lock for a
// few instructions, only the index reads the repositories.
#ifndef NEREID_CORE_SERVER_STATUS_H
#define NEREID_CORE_SERVER_STATUS_H

#include "core/model_table.h"
#include "core/server.h"

const char *server_version(void);
// What is built, ended by NULL; clients look here before they use an extension.
const char *const *server_extensions(void);

// Takes a reference to a model version that is READY; version -1 is the largest such, or what the
// model's split has as the main one, and those below are names (core/routing.h). Takes no lock
// that models share. Errors (Triton's texts): NOT_FOUND for a name or version that is not known or
// when no version is READY, UNAVAILABLE for a version that is not READY or when the server is not.
// With namespacing INVALID_ARG for a name that is not known or that several models have.
error *server_find_model(server *s, const char *name, int64_t version, model **m);
// The same of a model that was found already.
error *server_find_version(model_entry *entry, int64_t version, model **m);

// UNAVAILABLE "Server exiting" once server_stop was called.
error *server_is_live(server *s, bool *live);
error *server_is_ready(server *s, bool *ready);
// Whether this version (-1: any) is READY and its instances say so.
error *server_model_is_ready(server *s, const char *name, int64_t version, bool *ready);

// The READY versions of a model, ascending; the caller frees the array, which may be NULL.
error *server_ready_versions(server *s, const char *name, int64_t **versions, size_t *count);

// Every READY version by name and version; referenced while it is visited.
error *server_visit_ready(server *s, void (*visit)(void *context, model *m), void *context);

// One row of the index.
typedef struct index_row {
  const char *name;
  int64_t version;     // -1: the model as a whole
  version_state state; // VERSION_UNKNOWN: never loaded
  const char *reason;  // "" when there is none
} index_row;
typedef void index_visitor(void *context, const index_row *row);

// Every model directory of the repositories and every model that has a state, by name and version.
// INTERNAL when a repository cannot be read.
error *server_index(server *s, bool ready_only, index_visitor *visit, void *context);

#endif
