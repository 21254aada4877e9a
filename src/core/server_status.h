// SPDX-License-Identifier: Apache-2.0
// Answers of a server about itself and its models. Any thread. Look-ups hold one entry's lock for a
// few instructions; only the index reads the repositories.
#ifndef NEREID_CORE_SERVER_STATUS_H
#define NEREID_CORE_SERVER_STATUS_H

#include "core/model_table.h"
#include "core/server.h"

const char *server_version(void);
// The extensions, ended by NULL; clients look here before they use one.
const char *const *server_extensions(void);

// Takes a reference to a READY version of a model. -1: the main version of the model's split, else
// the largest READY one; numbers below -1 are names (core/routing.h). Takes no lock that models
// share. Errors, in Triton's words: NOT_FOUND for an unknown name or version or when no version is
// READY; UNAVAILABLE for a version that is not READY. With namespacing INVALID_ARG for an
// unknown name or a name of several models.
error *server_find_model(server *s, const char *name, int64_t version, model **m);
// The same for a model that was found already.
error *server_find_version(model_entry *entry, int64_t version, model **m);

// UNAVAILABLE "Server exiting" from server_stop on.
error *server_is_live(server *s, bool *live);
error *server_is_ready(server *s, bool *ready);
// Whether this version (-1: any) is READY and its instances work.
error *server_model_is_ready(server *s, const char *name, int64_t version, bool *ready);

// The READY versions of a model, ascending. The caller frees the array, which may be NULL.
error *server_ready_versions(server *s, const char *name, int64_t **versions, size_t *count);

// Visits every READY version by name and version, with a reference held.
error *server_visit_ready(server *s, void (*visit)(void *context, model *m), void *context);

// One row of the index.
typedef struct index_row {
  const char *name;
  int64_t version;     // -1: the model as a whole
  version_state state; // VERSION_UNKNOWN: never loaded
  const char *reason;  // "": none
} index_row;
typedef void index_visitor(void *context, const index_row *row);

// Visits every model directory of the repositories and every model with a state, by name and
// version. INTERNAL when a repository cannot be read.
error *server_index(server *s, bool ready_only, index_visitor *visit, void *context);

#endif
