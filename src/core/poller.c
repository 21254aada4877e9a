// SPDX-License-Identifier: Apache-2.0
// Looks at the repositories, and has models loaded and unloaded. One thread at a time has the turn
// (a look at all names): the poller's own or a caller's; it reads the disk without a lock. The load
// pool begins and does loads, and their ends are noted at the next turn, so that a load that fails
// or hangs affects its own model only.
#include "core/poller.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/state.h"
#include "base/string_map.h"
#include "base/thread.h"
#include "core/dependents.h"
#include "core/lifecycle.h"
#include "core/poll_policy.h"
#include "core/server_state.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_SECOND  UINT64_C(1000000000)
#define SETTLE_SECONDS 2   // or the interval, if shorter
#define RETRY_SECONDS  15  // or the interval, if longer
#define LAST_RETRY     600 // seconds

typedef enum polled_stage {
  POLLED_IDLE,
  POLLED_BEGINNING, // the load pool has the task
  POLLED_BEGUN,     // `loading` is set
  POLLED_REFUSED,   // the load could not begin
} polled_stage;

// The poller's knowledge of one name.
typedef struct polled_model {
  load_task task; // begins its load
  poller *poller;
  poll_memory memory;
  bool unsettled;          // looked at before the next poll
  bool told;               // logged: there are two of the name
  uint64_t turn;           // the last turn that found its name
  repository_model found;  // what is being loaded
  polled_stage stage;      // of its load; set by set_stage; guarded by poller->lock
  load_operation *loading; // NULL: there is nothing to wait for
  load_steps steps;        // of an ensemble
  bool waits;              // the ensemble waits for loads of its steps' models
} polled_model;

struct poller {
  server *server;
  poll_pace pace;
  uint64_t interval_ns; // 0: no thread
  pthread_t thread;
  pthread_mutex_t lock;   // guards what follows, and `stage` of all models
  pthread_cond_t stirred; // a change of these
  bool some_ended;        // loads ended since the last turn, and there are ensembles
  bool in_turn;   // a thread has the turn: it owns `models`, the rest of each, and what follows
  bool has_ended; // the thread has; true when there is none
  _Atomic bool stopping;

  string_map models;   // polled_model by name
  string_list changed; // models that changed, and whose ensembles are not up to date yet
  uint64_t turn;
  uint64_t *roots; // the identity of each repository's directory when it last held models; 0: never
  bool is_blind;   // a repository could not be read
};

static bool is_stopping(const poller *p)
{
  return atomic_load_explicit(&p->stopping, memory_order_relaxed);
}

// ---- turns ----

// False: there are no more turns.
static bool take_turn(poller *p)
{
  LOCK_SCOPE(&p->lock);
  while (p->in_turn)
    pthread_cond_wait(&p->stirred, &p->lock);
  p->in_turn = !is_stopping(p);
  return p->in_turn;
}

static void end_turn(poller *p)
{
  LOCK_SCOPE(&p->lock);
  assert(p->in_turn);
  p->in_turn = false;
  pthread_cond_broadcast(&p->stirred);
}

// ---- loads ----

static void set_stage(polled_model *m, polled_stage to)
{
  static const unsigned allowed[] = {
      [POLLED_IDLE] = STATE_BIT(POLLED_BEGINNING),
      [POLLED_BEGINNING] = STATE_BIT(POLLED_BEGUN) | STATE_BIT(POLLED_REFUSED),
      [POLLED_BEGUN] = STATE_BIT(POLLED_IDLE),
      [POLLED_REFUSED] = STATE_BIT(POLLED_IDLE),
  };
  assert(lock_is_held(&m->poller->lock));
  state_assert(allowed, m->stage, to);
  m->stage = to;
}

// A load has ended: ensembles that wait for it do not wait for the next poll.
static void tell_end(void *poller_pointer)
{
  poller *p = poller_pointer;
  if (atomic_load_explicit(&p->server->models.ensembles, memory_order_relaxed) == 0)
    return;
  LOCK_SCOPE(&p->lock);
  p->some_ended = true;
  pthread_cond_broadcast(&p->stirred);
}

static void begin_load(load_task *task)
{
  polled_model *m = container_of(task, polled_model, task);
  poller *p = m->poller;
  load_operation *loading = NULL;
  AUTO_ERROR error *e = NULL; // logged already
  if (!is_stopping(p))
    e = lifecycle_begin_load(p->server,
                             &(load_wish){.found = &m->found,
                                          .by_name = true,
                                          .steps = &m->steps,
                                          .ended = tell_end,
                                          .context = p},
                             &loading);
  LOCK_SCOPE(&p->lock);
  m->loading = loading;
  p->some_ended = p->some_ended || m->steps.is_ensemble;
  set_stage(m, e == NULL ? POLLED_BEGUN : POLLED_REFUSED);
  pthread_cond_broadcast(&p->stirred);
}

static bool has_ended(polled_model *m)
{
  LOCK_SCOPE(&m->poller->lock);
  return m->stage == POLLED_REFUSED ||
         (m->stage == POLLED_BEGUN && (m->loading == NULL || lifecycle_load_is_done(m->loading)));
}

// Returns whether the load failed to begin.
static bool await_begin(polled_model *m)
{
  poller *p = m->poller;
  LOCK_SCOPE(&p->lock);
  while (m->stage == POLLED_BEGINNING)
    pthread_cond_wait(&p->stirred, &p->lock);
  bool refused = m->stage == POLLED_REFUSED;
  set_stage(m, POLLED_IDLE);
  return refused;
}

static void end_load(polled_model *m, bool failed)
{
  poll_policy_ended(&m->memory, failed, clock_monotonic_ns(), &m->poller->pace);
  repository_model_fini(&m->found);
  string_list_fini(&m->steps.models);
  m->steps = (load_steps){0};
  m->waits = false;
}

static void await_end(polled_model *m)
{
  bool refused = await_begin(m);
  bool begun = m->loading != NULL;
  AUTO_ERROR error *e = lifecycle_await_load(m->loading); // logged already
  m->loading = NULL;
  m->waits = !refused && m->steps.is_ensemble;
  if (begun)
    string_list_add(&m->poller->changed, m->found.bare);
  if (!m->waits)
    end_load(m, refused || e != NULL);
}

// ---- ensembles ----

// Whether a model of its steps is still being loaded; waiting ensembles do not count.
static bool needs_time(poller *p, const polled_model *ensemble)
{
  string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&p->models, &i)) != NULL;) {
    const polled_model *m = entry->value;
    if (m->memory.is_loading && !m->waits && m->found.name != NULL &&
        string_list_contains(&ensemble->steps.models, m->found.bare))
      return true;
  }
  return false;
}

// Loads the ensembles whose steps are loaded, and reloads those with a changed step.
static void see_to_ensembles(poller *p)
{
  string_map_entry *entry;
  size_t count = 0;
  if (atomic_load_explicit(&p->server->models.ensembles, memory_order_relaxed) > 0) {
    model_wish *wishes AUTO_FREE = calloc(p->models.live_count + 1, sizeof(*wishes));
    polled_model **models AUTO_FREE = calloc(p->models.live_count + 1, sizeof(*models));
    if (wishes == NULL || models == NULL)
      return; // the next turn tries again
    for (size_t i = 0; (entry = string_map_walk(&p->models, &i)) != NULL;) {
      polled_model *m = entry->value;
      if (!m->waits || needs_time(p, m))
        continue;
      models[count] = m;
      wishes[count++] = (model_wish){.found = &m->found};
    }
    if (count + p->changed.count > 0)
      dependents_load(p->server, wishes, count, &p->changed);
    for (size_t i = 0; i < count; i++) {
      end_load(models[i], wishes[i].failure != NULL);
      error_free(wishes[i].failure);
    }
  }
  string_list_fini(&p->changed);
  p->changed = (string_list){0};
}

static void note_ends(poller *p, bool all)
{
  string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&p->models, &i)) != NULL;) {
    polled_model *m = entry->value;
    if (m->memory.is_loading && !m->waits && (all || has_ended(m)))
      await_end(m);
  }
  see_to_ensembles(p);
}

// Whether a new directory is no model.
static bool is_no_model(const poller *p, const repository_model *found)
{
  bool is_model;
  const model_entry *known = model_table_find(&p->server->models, found->name);
  if (known != NULL)
    return false;
  AUTO_ERROR error *e = repository_is_model(&p->server->repositories, found, &is_model);
  return e == NULL && !is_model;
}

// Takes over `found`.
static void load(polled_model *m, repository_model *found)
{
  poller *p = m->poller;
  if (is_no_model(p, found)) {
    poll_policy_ended(&m->memory, false, clock_monotonic_ns(), &p->pace);
    return;
  }
  assert(m->found.name == NULL && m->loading == NULL);
  m->found = *found;
  *found = (repository_model){0};
  m->task = (load_task){.run = begin_load};
  pthread_mutex_lock(&p->lock);
  set_stage(m, POLLED_BEGINNING);
  pthread_mutex_unlock(&p->lock);
  load_pool_add(&p->server->pool, &m->task);
}

static void unload(poller *p, const char *name)
{
  model_entry *entry = model_table_find(&p->server->models, name);
  if (entry == NULL)
    return;
  lifecycle_unload(p->server, entry);
  string_list_add(&p->changed, entry->bare);
}

// ---- looks ----

// A directory that cannot be read counts as a change, whose load reports why; what serves stays.
static poll_look look_at(const poller *p, const repository_model *found)
{
  poll_look look = {.present = true};
  if (found->duplicate)
    return (poll_look){0};
  AUTO_ERROR error *e =
      repository_stamp(found->repository, found->folder, &p->server->links, &look.stamp);
  if (e != NULL)
    look.stamp = (file_stamp){.targets = 1 + (uint64_t)error_get_code(e)};
  return look;
}

static void tell_duplicate(polled_model *m, const repository_model *found)
{
  if (found->duplicate && !m->told)
    log_error("failed to poll model '%s': not unique across all model repositories", found->name);
  m->told = found->duplicate;
}

// `found` NULL: there is nothing of that name. Lowers *again_ns to the moment for the next look.
static void consider(polled_model *m, const char *name, repository_model *found, uint64_t *again_ns)
{
  poller *p = m->poller;
  poll_look look = {0};
  uint64_t again = CLOCK_NEVER;
  if (found != NULL) {
    look = look_at(p, found);
    tell_duplicate(m, found);
  }
  poll_verdict verdict =
      poll_policy_decide(&m->memory, &look, clock_monotonic_ns(), &p->pace, &again);
  m->unsettled = verdict == POLL_LOOK_AGAIN;
  if (verdict == POLL_LOAD)
    load(m, found);
  else if (verdict == POLL_UNLOAD)
    unload(p, name);
  if (again < *again_ns)
    *again_ns = again;
}

// NULL when memory is short.
static polled_model *model_of_name(poller *p, const char *name)
{
  polled_model *m = string_map_get(&p->models, slice_of(name));
  if (m != NULL || (m = calloc(1, sizeof(*m))) == NULL)
    return m;
  m->poller = p;
  if (string_map_put(&p->models, slice_of(name), m))
    return m;
  free(m);
  return NULL;
}

static error *look_at_listed(poller *p, repository_listing *listing, bool all, uint64_t *again_ns)
{
  for (size_t i = 0; i < listing->count && !is_stopping(p); i++) {
    repository_model *found = &listing->items[i];
    polled_model *m = model_of_name(p, found->name);
    if (m == NULL)
      return error_no_memory();
    m->turn = p->turn;
    if (all || m->unsettled)
      consider(m, found->name, found, again_ns);
  }
  return NULL;
}

// Looks at names that were not listed. A name of which nothing is left is forgotten.
static void look_at_absent(poller *p, bool all, uint64_t *again_ns)
{
  string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&p->models, &i)) != NULL && !is_stopping(p);) {
    polled_model *m = entry->value;
    if (m->turn == p->turn)
      continue;
    if (all || m->unsettled)
      consider(m, entry->key, NULL, again_ns);
    if (!m->memory.taken.present && !m->memory.is_loading && !m->unsettled) {
      string_map_remove(&p->models, (slice){entry->key, entry->key_size});
      free(m);
    }
  }
}

static bool holds_something(const repository_listing *listing, const char *repository)
{
  for (size_t i = 0; i < listing->count; i++)
    if (listing->items[i].duplicate || strcmp(listing->items[i].repository, repository) == 0)
      return true;
  return false;
}

// A repository that is a mount point may not be mounted: then an empty, different directory is
// there.
static error *check_mounted(poller *p, const repository_listing *listing)
{
  const string_list *all = &p->server->options.model_repositories;
  for (size_t i = 0; i < all->count; i++) {
    AUTO_ROOT file_root root = FILE_ROOT_CLOSED;
    file_entry itself;
    const char *path = all->items[i];
    RETURN_IF_ERROR(files_open_root(path, p->server->repositories.links, &root));
    RETURN_IF_ERROR(files_look(&root, ".", &itself));
    if (holds_something(listing, path))
      p->roots[i] = itself.identity;
    else if (p->roots[i] != 0 && p->roots[i] != itself.identity)
      return error_new(ERROR_UNAVAILABLE,
                       "'%s' is empty and another directory than before: it may not be mounted",
                       path);
  }
  return NULL;
}

// While a repository cannot be read, it is unknown which models are gone.
static void tell_blind(poller *p, const error *e)
{
  if (e != NULL && !p->is_blind)
    log_error("failed to poll model repositories: %s; no model is unloaded until that ends",
              error_message(e));
  p->is_blind = e != NULL;
}

// Looks at all names, or at those that have not settled. Returns the moment for the next look at
// those; CLOCK_NEVER when there are none.
static uint64_t look(poller *p, bool all)
{
  uint64_t again_ns = CLOCK_NEVER;
  repository_listing listing;
  p->turn++;
  note_ends(p, false);
  AUTO_ERROR error *unread = repository_scan(&p->server->repositories, &listing);
  if (unread == NULL)
    unread = check_mounted(p, &listing);
  tell_blind(p, unread);
  AUTO_ERROR error *e = look_at_listed(p, &listing, all, &again_ns);
  if (e != NULL)
    log_error("failed to poll model repositories: %s", error_message(e));
  if (unread == NULL && e == NULL)
    look_at_absent(p, all, &again_ns);
  repository_listing_fini(&listing);
  see_to_ensembles(p);
  return again_ns;
}

void poller_poll(poller *p)
{
  uint64_t again_ns, give_up_ns = clock_monotonic_ns() + 2 * p->pace.settle_ns;
  for (bool all = true; take_turn(p); all = false) {
    again_ns = look(p, all);
    end_turn(p);
    if (again_ns > give_up_ns)
      break;
    LOCK_SCOPE(&p->lock);
    while (!is_stopping(p) && thread_wait(&p->stirred, &p->lock, again_ns))
      ;
  }
  if (!take_turn(p))
    return;
  note_ends(p, true);
  end_turn(p);
}

// ---- life ----

static void *run(void *poller_pointer)
{
  poller *p = poller_pointer;
  uint64_t due_ns = clock_monotonic_ns() + p->interval_ns, again_ns = CLOCK_NEVER;
  pthread_mutex_lock(&p->lock);
  while (!is_stopping(p)) {
    const uint64_t next_ns = again_ns < due_ns ? again_ns : due_ns;
    if (!p->some_ended && thread_wait(&p->stirred, &p->lock, next_ns))
      continue;
    p->some_ended = false;
    pthread_mutex_unlock(&p->lock);
    const uint64_t now = clock_monotonic_ns();
    bool all = now >= due_ns;
    if (take_turn(p)) {
      if (now >= next_ns)
        again_ns = look(p, all);
      else
        note_ends(p, false);
      end_turn(p);
    }
    if (all)
      due_ns = clock_monotonic_ns() + p->interval_ns;
    pthread_mutex_lock(&p->lock);
  }
  p->has_ended = true;
  pthread_cond_broadcast(&p->stirred);
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

// Polls compare with what the start has loaded.
static error *remember_loaded(poller *p)
{
  for (model_entry *entry = NULL; (entry = model_table_next(&p->server->models, entry)) != NULL;) {
    polled_model *m = model_of_name(p, entry->name);
    if (m == NULL)
      return error_no_memory();
    LOCK_SCOPE(&entry->lock);
    m->memory.taken = (poll_look){entry->config != NULL, entry->stamp};
  }
  return NULL;
}

static poll_pace pace_of(unsigned interval_seconds)
{
  uint64_t settle = SETTLE_SECONDS, retry = RETRY_SECONDS;
  if (interval_seconds > 0 && interval_seconds < settle)
    settle = interval_seconds;
  if (interval_seconds > retry)
    retry = interval_seconds;
  return (poll_pace){
      .settle_ns = settle * NS_PER_SECOND,
      .first_retry_ns = retry * NS_PER_SECOND,
      .last_retry_ns = (retry > LAST_RETRY ? retry : LAST_RETRY) * NS_PER_SECOND,
  };
}

error *poller_new(server *s, unsigned interval_seconds, poller **result)
{
  poller *p = calloc(1, sizeof(*p));
  if (p == NULL)
    return error_no_memory();
  p->server = s;
  p->pace = pace_of(interval_seconds);
  p->interval_ns = interval_seconds * NS_PER_SECOND;
  p->has_ended = interval_seconds == 0;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->stirred, NULL);
  p->roots = calloc(s->options.model_repositories.count + 1, sizeof(*p->roots));
  error *e = p->roots == NULL ? error_no_memory() : remember_loaded(p);
  if (e == NULL && interval_seconds > 0)
    e = thread_start(&p->thread, "poll", run, p);
  if (e == NULL) {
    *result = p;
    return NULL;
  }
  p->interval_ns = 0;
  poller_free(p);
  return e;
}

bool poller_stop(poller *p, uint64_t deadline_ns)
{
  LOCK_SCOPE(&p->lock);
  atomic_store_explicit(&p->stopping, true, memory_order_relaxed);
  pthread_cond_broadcast(&p->stirred);
  while ((!p->has_ended || p->in_turn) && thread_wait(&p->stirred, &p->lock, deadline_ns))
    ;
  return p->has_ended && !p->in_turn;
}

void poller_free(poller *p)
{
  if (p == NULL)
    return;
  if (p->interval_ns > 0)
    pthread_join(p->thread, NULL);
  note_ends(p, true);
  string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&p->models, &i)) != NULL;)
    free(entry->value);
  string_map_fini(&p->models);
  string_list_fini(&p->changed);
  free(p->roots);
  pthread_cond_destroy(&p->stirred);
  pthread_mutex_destroy(&p->lock);
  free(p);
}
