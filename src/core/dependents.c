// SPDX-License-Identifier: Apache-2.0
// Batches of loads: models first, then wave by wave the ensembles whose steps are loaded, then the
// ensembles of whatever has changed, as long as something changes. A batch belongs to one thread.
// It holds no model's entry while it waits, so that batches cannot wait for each other in a circle.
#include "core/dependents.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/string_map.h"
#include "base/thread.h"
#include "core/ensemble_record.h"
#include "core/ensemble_rules.h"
#include "core/server_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef enum item_stage {
  ITEM_NEW,
  ITEM_WAITING, // an ensemble, for its steps
  ITEM_LOADING,
  ITEM_DONE,
} item_stage;

typedef struct batch_item {
  repository_model found; // owned
  const model_wish *wish; // NULL: the item is a step's model, or an ensemble that is loaded again
  item_stage stage;
  load_steps steps;
  bool again;      // load it as its record says
  bool was_served; // before its load began
  size_t checked;  // the moment of the batch when its load began last
  size_t changed;  // the moment when what it serves changed; 0: never
  load_operation *loading;
  error *failure; // owned
  struct batch_item *next_bare;
} batch_item;

typedef struct batch {
  server *s;
  bool finds_steps;
  batch_item **items;
  size_t count, capacity;
  string_map by_bare; // the first item of a name; the others follow in next_bare
  size_t moment;      // counts begins and ends of loads
  bool failed;        // memory ran short
} batch;

// ---- items ----

static batch_item *first_of(const batch *b, const char *bare)
{
  return string_map_get(&b->by_bare, slice_of(bare));
}

static batch_item *find_item(const batch *b, const repository_model *found)
{
  batch_item *item = first_of(b, found->bare);
  while (item != NULL && strcmp(item->found.name, found->name) != 0)
    item = item->next_bare;
  return item;
}

static bool grow(batch *b)
{
  if (b->count < b->capacity)
    return true;
  const size_t capacity = b->capacity * 2 + 16;
  batch_item **grown = reallocarray(b->items, capacity, sizeof(*grown));
  if (grown == NULL)
    return false;
  b->items = grown;
  b->capacity = capacity;
  return true;
}

// Finds or adds; NULL when memory is short.
static batch_item *add_item(batch *b, const repository_model *found)
{
  batch_item *item = find_item(b, found);
  if (item != NULL)
    return item;
  item = grow(b) ? calloc(1, sizeof(*item)) : NULL;
  if (item == NULL || !repository_model_copy(found, &item->found)) {
    b->failed = true;
    free(item);
    return NULL;
  }
  item->next_bare = first_of(b, found->bare);
  if (!string_map_put(&b->by_bare, slice_of(item->found.bare), item)) {
    b->failed = true;
    repository_model_fini(&item->found);
    free(item);
    return NULL;
  }
  b->items[b->count++] = item;
  return item;
}

static void batch_fini(batch *b)
{
  for (size_t i = 0; i < b->count; i++) {
    batch_item *item = b->items[i];
    assert(item->loading == NULL);
    repository_model_fini(&item->found);
    string_list_fini(&item->steps.models);
    error_free(item->failure);
    free(item);
  }
  free(b->items);
  string_map_fini(&b->by_bare);
}

// ---- loads ----

static bool is_served(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  return model_entry_latest(entry) != NULL;
}

// Whether it is served and not about to be evicted (dependents_unload_idle).
static bool is_served_on(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  return model_entry_latest(entry) != NULL && !entry->busy;
}

static bool item_is_served(const batch *b, const batch_item *item)
{
  model_entry *entry = model_table_find(&b->s->models, item->found.name);
  return entry != NULL && is_served(entry);
}

static void end_item(batch *b, batch_item *item, error *failure_owned, bool changed)
{
  error_free(item->failure);
  item->failure = failure_owned;
  item->stage = ITEM_DONE;
  if (changed)
    item->changed = ++b->moment;
}

static bool steps_changed_since(const batch *b, const batch_item *item, size_t moment)
{
  for (size_t i = 0; i < item->steps.models.count; i++)
    for (const batch_item *step = first_of(b, item->steps.models.items[i]); step != NULL;
         step = step->next_bare)
      if (step->changed > moment)
        return true;
  return false;
}

// `steps`: asks only what an ensemble needs.
static void begin(batch *b, batch_item *item, bool steps)
{
  const load_wish wish = {
      .found = &item->found,
      .config_json = item->wish != NULL && !item->again ? item->wish->config_json : NULL,
      .files = item->wish != NULL && !item->again ? item->wish->files : NULL,
      .by_name = item->wish != NULL,
      .again = item->again,
      .anew = steps_changed_since(b, item, 0),
      .steps = steps ? &item->steps : NULL,
  };
  item->was_served = item_is_served(b, item);
  item->checked = ++b->moment;
  if (steps) {
    string_list_fini(&item->steps.models);
    item->steps = (load_steps){0};
  }
  error *e = lifecycle_begin_load(b->s, &wish, &item->loading);
  if (e != NULL)
    end_item(b, item, e, item->was_served && !item_is_served(b, item));
  else if (item->loading != NULL)
    item->stage = ITEM_LOADING;
  else if (steps && item->steps.is_ensemble)
    item->stage = ITEM_WAITING;
  else
    end_item(b, item, NULL, false);
}

static void await_loads(batch *b)
{
  for (size_t i = 0; i < b->count; i++) {
    batch_item *item = b->items[i];
    if (item->stage != ITEM_LOADING)
      continue;
    error *e = lifecycle_await_load(item->loading);
    item->loading = NULL;
    bool is_model = item->steps.models.count == 0; // its ensembles report why it failed
    end_item(b, item, e, e == NULL || ((is_model || item->was_served) && !item_is_served(b, item)));
  }
}

// ---- steps ----

static void find_step(batch *b, const char *name)
{
  repository_listing listing;
  AUTO_ERROR error *e = repository_find(&b->s->repositories, name, &listing);
  if (e != NULL)
    log_error("failed to poll model '%s': %s.", name, error_message(e));
  for (size_t i = 0; e == NULL && i < listing.count; i++) {
    if (listing.items[i].duplicate)
      log_error("failed to poll model '%s': not unique across all model repositories", name);
    else
      add_item(b, &listing.items[i]);
  }
  repository_listing_fini(&listing);
}

// On demand, a model that serves is loaded again only where a request asks for it.
static bool is_wanted(const batch *b, const char *name)
{
  model_entry *entry = NULL;
  if (b->s->demand == NULL)
    return true;
  while ((entry = model_table_next_bare(&b->s->models, name, entry)) != NULL)
    if (is_served_on(entry))
      return false;
  return true;
}

static void find_steps(batch *b, const batch_item *item)
{
  for (size_t i = 0; b->finds_steps && !item->again && i < item->steps.models.count; i++) {
    const char *name = item->steps.models.items[i];
    if (first_of(b, name) == NULL && is_wanted(b, name))
      find_step(b, name);
  }
}

static bool is_pending(const batch *b, const char *bare)
{
  const batch_item *item = first_of(b, bare);
  while (item != NULL && item->stage == ITEM_DONE)
    item = item->next_bare;
  return item != NULL;
}

static bool waits(const batch *b, const batch_item *item)
{
  for (size_t i = 0; i < item->steps.models.count; i++)
    if (is_pending(b, item->steps.models.items[i]))
      return true;
  return false;
}

// ---- waves ----

// Begins models, and the models that ensembles among them need, until all of these are known.
static void begin_new(batch *b)
{
  for (size_t i = 0; i < b->count; i++) { // find_steps adds items
    batch_item *item = b->items[i];
    if (item->stage != ITEM_NEW)
      continue;
    begin(b, item, true);
    if (item->stage == ITEM_WAITING)
      find_steps(b, item);
  }
}

static void begin_ensemble(batch *b, batch_item *item)
{
  const bool unchanged = item->steps.unchanged;
  if (unchanged && !steps_changed_since(b, item, 0)) {
    end_item(b, item, NULL, false);
    return;
  }
  item->again = item->again || unchanged;
  begin(b, item, false);
}

// An ensemble that waits, if possible one in a circle; NULL: none waits.
static batch_item *circular_item(const batch *b)
{
  batch_item *waiting = NULL;
  for (size_t i = 0; i < b->count; i++) {
    if (b->items[i]->stage != ITEM_WAITING)
      continue;
    waiting = b->items[i];
    model_entry *entry = model_table_find(&b->s->models, waiting->found.name);
    if (entry != NULL && ensemble_is_circular(&b->s->models, entry))
      break;
  }
  return waiting;
}

// Ends when nothing waits.
static void run_waves(batch *b)
{
  for (;;) {
    bool any = false;
    begin_new(b);
    await_loads(b);
    for (size_t i = 0; i < b->count; i++) {
      batch_item *item = b->items[i];
      if (item->stage != ITEM_WAITING || waits(b, item))
        continue;
      begin_ensemble(b, item);
      any = true;
    }
    if (any)
      continue;
    batch_item *item = circular_item(b);
    if (item == NULL)
      return;
    begin_ensemble(b, item); // is refused
  }
}

// ---- ensembles of what has changed ----

static void add_again(batch *b, model_entry *entry)
{
  repository_model found;
  pthread_mutex_lock(&entry->lock);
  bool copied = entry->ensemble != NULL && repository_model_copy(&entry->ensemble->found, &found);
  pthread_mutex_unlock(&entry->lock);
  if (!copied)
    return;
  batch_item *item = add_item(b, &found);
  repository_model_fini(&found);
  if (item == NULL)
    return;
  assert(item->stage != ITEM_LOADING);
  item->stage = ITEM_NEW;
  item->again = true;
}

static bool has_step_of(model_entry *entry, const string_map *names)
{
  LOCK_SCOPE(&entry->lock);
  const Inference__ModelEnsembling *ensemble =
      entry->ensemble != NULL ? entry->ensemble->config->ensemble_scheduling : NULL;
  for (size_t i = 0; ensemble != NULL && i < ensemble->n_step; i++)
    if (string_map_get(names, slice_of(ensemble->step[i]->model_name)) != NULL)
      return true;
  return false;
}

// Whether the batch has checked the ensemble since its steps changed.
static bool is_seen_to(const batch *b, const model_entry *entry)
{
  const repository_model found = {.name = entry->name, .bare = entry->bare};
  const batch_item *item = find_item(b, &found);
  if (item == NULL)
    return false;
  if (item->stage != ITEM_DONE)
    return true;
  return item->steps.models.count > 0 && !steps_changed_since(b, item, item->checked);
}

// Adds the ensembles of `names`, the ensembles of those, and so on. False: there are none.
static bool add_ensembles(batch *b, string_map *names)
{
  bool any = false, more = true;
  while (more) {
    more = false;
    model_entry *entry = NULL;
    while ((entry = model_table_next(&b->s->models, entry)) != NULL) {
      if (!has_step_of(entry, names) || is_seen_to(b, entry))
        continue;
      add_again(b, entry);
      more = any = true;
      if (!string_map_put(names, slice_of(entry->bare), entry))
        b->failed = true;
    }
    more = more && !b->failed;
  }
  return any && !b->failed;
}

static void put_name(batch *b, string_map *names, const char *name)
{
  if (!string_map_put(names, slice_of(name), b))
    b->failed = true;
}

static void run(batch *b, const string_list *changed)
{
  size_t since = 0;
  for (bool first = true;; first = false) {
    run_waves(b);
    if (atomic_load_explicit(&b->s->models.ensembles, memory_order_relaxed) == 0 || b->failed)
      return;
    string_map names = {0};
    for (size_t i = 0; first && changed != NULL && i < changed->count; i++)
      put_name(b, &names, changed->items[i]);
    for (size_t i = 0; i < b->count; i++)
      if (b->items[i]->changed > since)
        put_name(b, &names, b->items[i]->found.bare);
    since = b->moment;
    bool any = names.live_count > 0 && add_ensembles(b, &names);
    string_map_fini(&names);
    if (!any)
      return;
  }
}

// ---- unloads ----

typedef struct leaving {
  model_entry **items;
  size_t count;
} leaving;

static bool is_leaving(const leaving *l, const model_entry *entry)
{
  for (size_t i = 0; i < l->count; i++)
    if (l->items[i] == entry)
      return true;
  return false;
}

static bool stays(model_table *models, const leaving *l, model_entry *step)
{
  model_entry *entry = NULL;
  pthread_mutex_lock(&step->lock);
  bool by_name = step->by_name;
  pthread_mutex_unlock(&step->lock);
  if (by_name || is_leaving(l, step))
    return true;
  while ((entry = model_table_next(models, entry)) != NULL) {
    if (is_leaving(l, entry))
      continue;
    LOCK_SCOPE(&entry->lock);
    if (ensemble_has_step(entry->ensemble, step->bare))
      return true;
  }
  return false;
}

// Adds the models of this ensemble's steps that nothing else keeps.
static void add_alone(model_table *models, leaving *l, model_entry *ensemble, size_t room)
{
  string_list names = {0};
  pthread_mutex_lock(&ensemble->lock);
  if (ensemble->ensemble != NULL)
    ensemble_add_steps(ensemble->ensemble->config, &names);
  pthread_mutex_unlock(&ensemble->lock);
  for (size_t i = 0; i < names.count && l->count < room; i++) {
    model_entry *step = ensemble_step_entry(models, ensemble, names.items[i]);
    if (step != NULL && !stays(models, l, step))
      l->items[l->count++] = step;
  }
  string_list_fini(&names);
}

// Brings the ensembles of changed models up to date.
static void update_ensembles(server *s, const string_list *names)
{
  if (atomic_load_explicit(&s->models.ensembles, memory_order_relaxed) > 0 && names->count > 0)
    dependents_load(s, NULL, 0, names);
}

error *dependents_unload(server *s, const char *name, bool cascade)
{
  model_table *models = &s->models;
  const size_t room = atomic_load_explicit(&models->count, memory_order_relaxed);
  leaving l = {.items = calloc(room + 1, sizeof(model_entry *))};
  model_entry **items AUTO_FREE = l.items;
  model_entry *entry = NULL;
  string_list names = {0};
  if (items == NULL)
    return error_no_memory();
  while (l.count < room && (entry = model_table_next_bare(models, name, entry)) != NULL)
    l.items[l.count++] = entry;
  for (size_t i = 0; cascade && i < l.count; i++) // add_alone adds items
    add_alone(models, &l, l.items[i], room);
  for (size_t i = 0; i < l.count; i++) {
    lifecycle_unload(s, l.items[i]);
    string_list_add(&names, l.items[i]->bare);
  }
  update_ensembles(s, &names);
  error *e = names.failed ? error_no_memory() : NULL;
  string_list_fini(&names);
  return e;
}

// An ensemble that uses the model, and is served or about to be.
static model_entry *using_ensemble(model_table *models, const model_entry *step)
{
  model_entry *entry = NULL;
  if (atomic_load_explicit(&models->ensembles, memory_order_relaxed) == 0)
    return NULL;
  while ((entry = model_table_next(models, entry)) != NULL) {
    LOCK_SCOPE(&entry->lock);
    bool is_used = model_entry_latest(entry) != NULL || entry->expected > 0;
    if (is_used && ensemble_has_step(entry->ensemble, step->bare))
      break;
  }
  return entry;
}

static bool has_no_ensemble(server *s, const model_entry *entry)
{
  return using_ensemble(&s->models, entry) == NULL;
}

// An ensemble's load records its steps, then checks that they are served and not busy. An eviction
// makes the model busy, then looks at ensembles. So one of the two sees the other.
bool dependents_unload_idle(server *s, model_entry *entry)
{
  model_entry *ensemble;
  while ((ensemble = using_ensemble(&s->models, entry)) != NULL)
    if (!dependents_unload_idle(s, ensemble))
      return false;
  return lifecycle_unload_idle(s, entry, has_no_ensemble);
}

// ---- requests ----

void dependents_load(server *s, model_wish *wishes, size_t count, const string_list *changed)
{
  batch b = {.s = s,
             .finds_steps = s->options.model_control_mode == TRITONSERVER_MODEL_CONTROL_EXPLICIT ||
                            s->demand != NULL};
  for (size_t i = 0; i < count; i++) {
    batch_item *item = add_item(&b, wishes[i].found);
    if (item != NULL)
      item->wish = &wishes[i];
  }
  run(&b, changed);
  for (size_t i = 0; i < count; i++) {
    batch_item *item = find_item(&b, wishes[i].found);
    wishes[i].failure = item != NULL ? item->failure : error_no_memory();
    if (item != NULL)
      item->failure = NULL;
  }
  batch_fini(&b);
}
