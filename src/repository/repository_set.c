// SPDX-License-Identifier: Apache-2.0
// Lists are reference-counted and immutable: adding or removing makes a new list.
#include "repository/repository_set.h"

#include "base/cleanup.h"
#include "base/refcount.h"
#include "base/thread.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct repository_list {
  refcount references;
  repository_place *places;
  size_t count;
};

static void free_place(repository_place *place)
{
  for (size_t i = 0; i < place->mapping_count; i++) {
    free(place->mappings[i].model);
    free(place->mappings[i].folder);
  }
  free(place->mappings);
  free(place->path);
}

void repository_list_drop(repository_list *list)
{
  if (list == NULL || !refcount_drop(&list->references))
    return;
  for (size_t i = 0; i < list->count; i++)
    free_place(&list->places[i]);
  free(list->places);
  free(list);
}

// An empty list with room for `capacity` places.
static repository_list *new_list(size_t capacity)
{
  repository_list *list = calloc(1, sizeof(*list));
  if (list == NULL)
    return NULL;
  refcount_init(&list->references);
  list->places = calloc(capacity + 1, sizeof(*list->places));
  if (list->places != NULL)
    return list;
  free(list);
  return NULL;
}

static bool append_copy(repository_list *list, const repository_place *from)
{
  repository_place *to = &list->places[list->count++];
  to->path = strdup(from->path);
  to->mappings = calloc(from->mapping_count + 1, sizeof(*to->mappings));
  bool complete = to->path != NULL && to->mappings != NULL;
  for (size_t i = 0; complete && i < from->mapping_count; i++) {
    repository_mapping *mapping = &to->mappings[to->mapping_count++];
    mapping->model = strdup(from->mappings[i].model);
    mapping->folder = strdup(from->mappings[i].folder);
    complete = mapping->model != NULL && mapping->folder != NULL;
  }
  return complete;
}

error *repository_set_init(repository_set *set, const string_list *paths, const file_policy *links,
                           bool namespacing)
{
  *set = (repository_set){.links = links, .namespacing = namespacing};
  pthread_mutex_init(&set->lock, NULL);
  set->list = new_list(paths->count);
  for (size_t i = 0; set->list != NULL && i < paths->count; i++)
    if (!append_copy(set->list, &(repository_place){.path = paths->items[i]}))
      return error_no_memory();
  return set->list == NULL ? error_no_memory() : NULL;
}

void repository_set_fini(repository_set *set)
{
  repository_list_drop(set->list);
  pthread_mutex_destroy(&set->lock);
}

repository_list *repository_set_take(repository_set *set)
{
  LOCK_SCOPE(&set->lock);
  refcount_take(&set->list->references);
  return set->list;
}

const repository_place *repository_list_at(const repository_list *list, size_t index)
{
  return index < list->count ? &list->places[index] : NULL;
}

const repository_mapping *repository_list_mapping(const repository_list *list, const char *name,
                                                  const repository_place **place)
{
  for (size_t i = 0; i < list->count; i++) {
    *place = &list->places[i];
    for (size_t k = 0; k < (*place)->mapping_count; k++)
      if (strcmp((*place)->mappings[k].model, name) == 0)
        return &(*place)->mappings[k];
  }
  return NULL;
}

bool repository_place_maps(const repository_place *place, const char *folder)
{
  for (size_t i = 0; i < place->mapping_count; i++)
    if (strcmp(place->mappings[i].folder, folder) == 0)
      return true;
  return false;
}

// ---- changes ----

static size_t index_of(const repository_list *list, const char *path)
{
  size_t i = 0;
  while (i < list->count && strcmp(list->places[i].path, path) != 0)
    i++;
  return i;
}

static error *check_new(const repository_list *list, const repository_place *added)
{
  const repository_place *other;
  if (index_of(list, added->path) < list->count)
    return error_new(ERROR_ALREADY_EXISTS, "model repository '%s' has already been registered",
                     added->path);
  for (size_t i = 0; i < added->mapping_count; i++) {
    const char *model = added->mappings[i].model;
    if (repository_list_mapping(list, model, &other) != NULL)
      return error_new(ERROR_ALREADY_EXISTS,
                       "failed to register '%s', there is a conflicting mapping for '%s'", model,
                       model);
  }
  return NULL;
}

// Replaces the list by a copy without the place `left_out` and with `added`, if that is not NULL.
static error *change(repository_set *set, size_t left_out, const repository_place *added)
{
  const repository_list *now = set->list;
  assert(lock_is_held(&set->lock) && left_out <= now->count);
  AUTO_REPOSITORIES repository_list *next = new_list(now->count + 1);
  if (next == NULL)
    return error_no_memory();
  for (size_t i = 0; i < now->count; i++)
    if (i != left_out && !append_copy(next, &now->places[i]))
      return error_no_memory();
  if (added != NULL && !append_copy(next, added))
    return error_no_memory();
  repository_list *before = set->list;
  set->list = next;
  next = before; // its reference is dropped
  return NULL;
}

error *repository_set_add(repository_set *set, const char *path, const repository_mapping *mappings,
                          size_t mapping_count)
{
  const repository_place added = {(char *)path, (repository_mapping *)mappings, mapping_count};
  AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
  AUTO_ERROR error *absent = files_open_root(path, set->links, &root);
  if (absent != NULL)
    return error_new(ERROR_INVALID_ARG, "failed to register '%s', repository not found", path);
  LOCK_SCOPE(&set->lock);
  RETURN_IF_ERROR(check_new(set->list, &added));
  return change(set, set->list->count, &added);
}

error *repository_set_remove(repository_set *set, const char *path)
{
  LOCK_SCOPE(&set->lock);
  size_t at = index_of(set->list, path);
  if (at == set->list->count)
    return error_new(ERROR_INVALID_ARG, "failed to unregister '%s', repository not found", path);
  return change(set, at, NULL);
}
