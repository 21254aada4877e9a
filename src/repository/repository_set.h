// SPDX-License-Identifier: Apache-2.0
// The repositories of a server. They may change while it runs, so a reader takes the present list,
// which is immutable. Any thread.
#ifndef NEREID_REPOSITORY_REPOSITORY_SET_H
#define NEREID_REPOSITORY_REPOSITORY_SET_H

#include "base/error.h"
#include "base/files.h"
#include "base/string_list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

// A model whose directory has another name.
typedef struct repository_mapping {
  char *model;
  char *folder; // below the repository
} repository_mapping;

typedef struct repository_place {
  char *path;                   // as the operator gave it
  repository_mapping *mappings; // no other mapping of the server has the models' names
  size_t mapping_count;
} repository_place;

typedef struct repository_list repository_list;

typedef struct repository_set {
  pthread_mutex_t lock;
  repository_list *list;    // guarded by lock
  const file_policy *links; // which links are followed
  bool namespacing;         // a model's name is unique only within its repository
} repository_set;

// `links` is borrowed. The caller releases `set` with repository_set_fini, also after an error.
error *repository_set_init(repository_set *set, const string_list *paths, const file_policy *links,
                           bool namespacing);
void repository_set_fini(repository_set *set);
#define AUTO_REPOSITORY_SET __attribute__((cleanup(repository_set_fini)))

// Adds a repository; copies the arguments. In Triton's words: INVALID_ARG when there is no such
// directory, ALREADY_EXISTS for a path or a mapped name that is registered already.
error *repository_set_add(repository_set *set, const char *path, const repository_mapping *mappings,
                          size_t mapping_count);
// INVALID_ARG when it is not registered. Models loaded from it stay loaded.
error *repository_set_remove(repository_set *set, const char *path);

// A reference to the present list, to be dropped with repository_list_drop.
repository_list *repository_set_take(repository_set *set);
void repository_list_drop(repository_list *list);

static inline void cleanup_repository_list(repository_list **list)
{
  repository_list_drop(*list);
}
#define AUTO_REPOSITORIES __attribute__((cleanup(cleanup_repository_list)))

// The places in the order given; NULL after the last.
const repository_place *repository_list_at(const repository_list *list, size_t index);
// The mapping of the model `name` and its place, or NULL.
const repository_mapping *repository_list_mapping(const repository_list *list, const char *name,
                                                  const repository_place **place);
// Whether a mapping gives the directory another name.
bool repository_place_maps(const repository_place *place, const char *folder);

#endif
