// SPDX-License-Identifier: Apache-2.0
// Answers from the table of models.
#include "core/server_status.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "core/model_instances.h"
#include "core/routing.h"
#include "core/server_state.h"
#include "repository/repository.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *server_version(void)
{
  return NEREID_VERSION;
}

const char *const *server_extensions(void)
{
  static const char *const extensions[] = {
      "classification",
      "sequence",
      "model_repository",
      "model_repository(unload_dependents)",
      "schedule_policy",
      "model_configuration",
      "system_shared_memory",
      "cuda_shared_memory",
      "binary_tensor_data",
      "parameters",
      "statistics",
      "trace",
      "logging",
      NULL,
  };
  return extensions;
}

static error *find_number(model_entry *entry, int64_t version, const version_slot **slot)
{
  *slot = model_entry_version(entry, version);
  if (*slot == NULL)
    return model_unknown(ERROR_NOT_FOUND, "'%s' version %" PRId64 " is not found", entry->name,
                         version);
  if ((*slot)->state != VERSION_READY)
    return model_unknown(ERROR_UNAVAILABLE, "'%s' version %" PRId64 " is not at ready state",
                         entry->name, version);
  return NULL;
}

static inline error *find_version(model_entry *entry, int64_t version, model **m)
{
  const version_slot *slot = NULL;
  LOCK_SCOPE(&entry->lock);
  if (version == -1 && entry->routing == NULL)
    slot = model_entry_latest(entry);
  if (slot == NULL)
    RETURN_IF_ERROR(version < 0 ? routing_find(entry, version, &slot)
                                : find_number(entry, version, &slot));
  *m = model_ref(slot->ready);
  return NULL;
}

// Each request comes here; without a version and without rules it takes the shortest way.
error *server_find_model(server *s, const char *name, int64_t version, model **m)
{
  model_entry *entry = s->models.namespacing ? NULL : model_table_find(&s->models, name);
  if (entry == NULL)
    RETURN_IF_ERROR(model_table_find_named(&s->models, name, &entry));
  return find_version(entry, version, m);
}

error *server_find_version(model_entry *entry, int64_t version, model **m)
{
  return find_version(entry, version, m);
}

static error *check_exiting(const server *s)
{
  return server_state_of(s) == SERVER_EXITING ? error_new(ERROR_UNAVAILABLE, "Server exiting")
                                              : NULL;
}

error *server_is_live(server *s, bool *live)
{
  *live = false;
  RETURN_IF_ERROR(check_exiting(s));
  *live = true;
  return NULL;
}

// False: there is no version with this index. *m: the version's model, referenced, if it is READY.
// *well: the entry has no failure that counts, and the version is READY or excused.
static bool look_at_version(model_entry *entry, size_t index, model **m, bool *well)
{
  *m = NULL;
  pthread_mutex_lock(&entry->lock);
  *well = entry->failure == NULL || !entry->failure_counts;
  const bool found = index < entry->version_count;
  if (found && entry->versions[index].state == VERSION_READY)
    *m = model_ref(entry->versions[index].ready);
  else if (found)
    *well = *well && version_slot_is_excused(&entry->versions[index]);
  pthread_mutex_unlock(&entry->lock);
  return found;
}

static void ask_entry(model_entry *entry)
{
  model *m;
  bool well;
  for (size_t i = 0; look_at_version(entry, i, &m, &well); i++)
    if (m != NULL) {
      model_ask_health(m);
      model_unref(m);
    }
}

// Whether all versions are well, and the instances of READY versions, which are asked without the
// lock. On demand a request may load any model of the repository; that a model cannot be loaded is
// then not the server's fault.
static bool entry_is_ready(model_entry *entry, bool on_demand)
{
  bool ready = true, well;
  model *m;
  for (size_t i = 0; look_at_version(entry, i, &m, &well); i++) {
    ready = ready && (well || on_demand);
    if (m != NULL) {
      ready = model_is_healthy(m) && ready;
      model_unref(m);
    }
  }
  return ready && (well || on_demand);
}

error *server_is_ready(server *s, bool *ready)
{
  *ready = false;
  RETURN_IF_ERROR(check_exiting(s));
  if (server_state_of(s) != SERVER_READY)
    return NULL;
  *ready = true;
  model_entry *entry = NULL;
  if (!s->options.strict_readiness)
    return NULL;
  while ((entry = model_table_next(&s->models, entry)) != NULL)
    ask_entry(entry);
  while ((entry = model_table_next(&s->models, entry)) != NULL)
    *ready = entry_is_ready(entry, s->options.on_demand) && *ready;
  return NULL;
}

error *server_model_is_ready(server *s, const char *name, int64_t version, bool *ready)
{
  model *m;
  *ready = false;
  RETURN_IF_ERROR(check_exiting(s));
  AUTO_ERROR error *e = server_find_model(s, name, version, &m);
  if (e != NULL)
    return NULL;
  model_ask_health(m);
  *ready = model_is_healthy(m);
  model_unref(m);
  return NULL;
}

error *server_ready_versions(server *s, const char *name, int64_t **versions, size_t *count)
{
  *versions = NULL;
  *count = 0;
  model_entry *entry;
  AUTO_ERROR error *e = model_table_find_named(&s->models, name, &entry);
  if (e != NULL)
    return NULL;
  LOCK_SCOPE(&entry->lock);
  *versions = calloc(entry->version_count + 1, sizeof(**versions));
  if (*versions == NULL)
    return error_no_memory();
  for (size_t i = 0; i < entry->version_count; i++)
    if (entry->versions[i].state == VERSION_READY)
      (*versions)[(*count)++] = entry->versions[i].version;
  return NULL;
}

error *server_visit_ready(server *s, void (*visit)(void *context, model *m), void *context)
{
  bool well;
  model *m;
  size_t count;
  model_entry **entries AUTO_FREE = NULL;
  RETURN_IF_ERROR(model_table_sorted(&s->models, &entries, &count));
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; look_at_version(entries[i], k, &m, &well); k++)
      if (m != NULL) {
        visit(context, m);
        model_unref(m);
      }
  return NULL;
}

// ---- the index ----

typedef struct index_walk {
  bool ready_only;
  index_visitor *visit;
  void *context;
} index_walk;

static void visit_row(const index_walk *walk, index_row row)
{
  if (!walk->ready_only || row.state == VERSION_READY)
    walk->visit(walk->context, &row);
}

#define FAULT_TEXT_BYTES 1024

// A READY version counts as UNAVAILABLE while one of its instances is at fault.
static void visit_loaded(const index_walk *walk, const char *name, model *m, int64_t version)
{
  char fault[FAULT_TEXT_BYTES];
  bool faulty = model_has_fault(m, fault, sizeof(fault));
  visit_row(walk, (index_row){name, version, faulty ? VERSION_UNAVAILABLE : VERSION_READY,
                              faulty ? fault : ""});
}

// False: there are no more versions. Instances are asked without the lock.
static bool visit_version(const index_walk *walk, model_entry *entry, size_t i, bool listed)
{
  model *loaded = NULL;
  int64_t version = -1;
  pthread_mutex_lock(&entry->lock);
  bool found = i < entry->version_count;
  if (found) {
    const version_slot *v = &entry->versions[i];
    version = v->version;
    if (v->state == VERSION_READY)
      loaded = model_ref(v->ready);
    else if (listed || v->state != VERSION_UNAVAILABLE)
      visit_row(walk,
                (index_row){entry->bare, version, v->state, v->reason != NULL ? v->reason : ""});
  }
  pthread_mutex_unlock(&entry->lock);
  if (loaded != NULL) {
    visit_loaded(walk, entry->bare, loaded, version);
    model_unref(loaded);
  }
  return found;
}

// Visits the rows of a model that has a state. `listed`: its directory is there.
static void visit_entry(const index_walk *walk, model_entry *entry, bool listed)
{
  pthread_mutex_lock(&entry->lock);
  if (listed && entry->failure != NULL)
    visit_row(walk, (index_row){entry->bare, -1, VERSION_UNAVAILABLE, entry->failure});
  else if (listed && entry->version_count == 0)
    visit_row(walk, (index_row){entry->bare, -1, VERSION_UNKNOWN, ""});
  pthread_mutex_unlock(&entry->lock);
  for (size_t i = 0; visit_version(walk, entry, i, listed); i++)
    ;
}

static void visit_dir(const index_walk *walk, server *s, const repository_model *found)
{
  model_entry *entry = model_table_find(&s->models, found->name);
  if (found->duplicate) // as in Triton, listed even when only READY ones are asked for
    walk->visit(walk->context, &(index_row){found->bare, -1, VERSION_UNAVAILABLE,
                                            "model appears in two or more repositories"});
  else if (entry != NULL)
    visit_entry(walk, entry, true);
  else if (found->fault != NULL)
    visit_row(walk, (index_row){found->bare, -1, VERSION_UNAVAILABLE, found->fault});
  else
    visit_row(walk, (index_row){found->bare, -1, VERSION_UNKNOWN, ""});
}

error *server_index(server *s, bool ready_only, index_visitor *visit, void *context)
{
  repository_listing listing;
  const index_walk walk = {ready_only, visit, context};
  size_t count;
  size_t at = 0;
  model_entry **entries AUTO_FREE = NULL;
  error *e = repository_scan(&s->repositories, &listing);
  if (e != NULL && error_get_code(e) != ERROR_UNAVAILABLE) {
    // The repository is gone; models that serve from it do not need it.
    log_error("index: %s", error_message(e));
    error_free(e);
    e = NULL;
  }
  if (e == NULL)
    e = model_table_sorted(&s->models, &entries, &count);
  if (e != NULL) {
    repository_listing_fini(&listing);
    return e;
  }
  // Both are sorted by name; models whose directory is gone are listed between the directories.
  for (size_t i = 0; i <= listing.count; i++) {
    const char *next = i < listing.count ? listing.items[i].name : NULL;
    for (; at < count && (next == NULL || strcmp(entries[at]->name, next) < 0); at++)
      visit_entry(&walk, entries[at], false);
    if (at < count && next != NULL && strcmp(entries[at]->name, next) == 0)
      at++;
    if (next != NULL)
      visit_dir(&walk, s, &listing.items[i]);
  }
  repository_listing_fini(&listing);
  return NULL;
}
