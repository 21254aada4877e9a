// SPDX-License-Identifier: Apache-2.0
// Look-ups run on the submitting thread or a thread of the cache (cache_lookups.h), insertions on
// the thread that answers.
#include "core/model_cache.h"

#include "base/clock.h"
#include "base/container_of.h"
#include "base/log.h"
#include "core/cache.h"
#include "core/cache_entry.h"
#include "core/cache_key.h"
#include "request/latency_summaries.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct model_cache {
  response_cache *cache; // the server's
  model *model;          // its owner
  cache_stamp stamp;
  cache_summaries *summaries; // owned; NULL: not wanted
  _Atomic bool told;          // logged: an answer could not be inserted
};

typedef struct lookup_ticket {
  cache_ticket ticket; // the factory has a pointer to it
  model_cache *cache;  // the factory references the model, which keeps the cache
  uint64_t look_up_ns;
  char key[CACHE_KEY_SIZE];
} lookup_ticket;

// ---- making ----

error *model_cache_make(model *m)
{
  const Inference__ModelResponseCache *wanted = m->config->response_cache;
  if (wanted == NULL || !wanted->enable || m->environment.cache == NULL)
    return NULL;
  model_cache *c = calloc(1, sizeof(*c));
  if (c == NULL)
    return error_no_memory();
  m->cache = c;
  c->cache = m->environment.cache;
  c->model = m;
  cache_stamp_make(m, response_cache_secret(c->cache), &c->stamp);
  if (m->target.summaries != NULL && (c->summaries = calloc(1, sizeof(*c->summaries))) == NULL)
    return error_no_memory();
  return NULL;
}

void model_cache_free(model_cache *c)
{
  if (c != NULL && c->summaries != NULL) {
    sliding_quantiles_fini(&c->summaries->hit);
    sliding_quantiles_fini(&c->summaries->miss);
    free(c->summaries);
  }
  free(c);
}

cache_lookups *model_cache_lookups(const model_cache *c)
{
  return response_cache_lookups(c->cache);
}

const cache_summaries *model_cache_summaries(const model_cache *c)
{
  return c->summaries;
}

// ---- misses ----

static void count_miss(model_cache *c, bool success, uint64_t ns)
{
  statistics_count_cache_miss(&c->model->target.shared_statistics, success, ns);
  if (c->summaries != NULL)
    sliding_quantiles_add(&c->summaries->miss, clock_monotonic_ns(), ns / 1000);
}

static bool may_keep(const response *r, uint32_t flags)
{
  return r != NULL && r->failure == NULL && (flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL) != 0;
}

// Logged once as an error, as in Triton; further failures might be a line for each request.
static void tell_failure(model_cache *c, const char *key, const error *e)
{
  const log_subject subject = {.model = c->model->name, .version = c->model->target.version};
  if (error_get_code(e) == ERROR_ALREADY_EXISTS)
    return; // an equal request was faster
  if (!atomic_exchange_explicit(&c->told, true, memory_order_relaxed))
    log_error_about(&subject,
                    "Failed to insert key [%s] into response cache: %s (model '%s'; further ones "
                    "are told with --log-verbose=1)",
                    key, error_message(e), c->model->name);
  else
    log_verbose(1, "Failed to insert key [%s] into response cache: %s (model '%s')", key,
                error_message(e), c->model->name);
}

static error *copy_out(cache_copier *c, const cache_entry *entry)
{
  return cache_entry_write(c->r, entry);
}

static void insert(model_cache *c, const char *key, response *r)
{
  cache_entry entry = {.count = 1};
  cache_copier copier = {.copy = copy_out, .r = r};
  if (!cache_entry_size(r, &entry.buffers[0].size))
    return;
  AUTO_ERROR error *e = response_cache_insert(c->cache, key, &entry, &copier);
  if (e != NULL)
    tell_failure(c, key, e);
}

static void end_ticket(cache_ticket *ended, response *r, uint32_t flags)
{
  lookup_ticket *t = container_of(ended, lookup_ticket, ticket);
  uint64_t begun = clock_monotonic_ns();
  if (may_keep(r, flags))
    insert(t->cache, t->key, r);
  count_miss(t->cache, r != NULL && r->failure == NULL,
             t->look_up_ns + (clock_monotonic_ns() - begun));
  free(t);
}

// When memory is short, the answer is not kept.
static void leave_ticket(model_cache *c, request *r, const char *key, uint64_t look_up_ns)
{
  lookup_ticket *t = malloc(sizeof(*t));
  if (t == NULL) {
    count_miss(c, false, look_up_ns);
    return;
  }
  t->ticket.end = end_ticket;
  t->cache = c;
  t->look_up_ns = look_up_ns;
  memcpy(t->key, key, strlen(key) + 1);
  r->factory->cache_ticket = &t->ticket;
}

void model_cache_skip(model_cache *c, request *r)
{
  (void)r;
  count_miss(c, false, 0);
}

// ---- hits ----

// A library may treat this error as success, so an incomplete response is dropped here.
static error *copy_in(cache_copier *c, const cache_entry *entry)
{
  if (c->r != NULL)
    return error_new(ERROR_INVALID_ARG, "the entry was copied already");
  RETURN_IF_ERROR(response_new(c->factory, &c->r));
  error *e = cache_entry_read(entry, c->r);
  if (e != NULL) {
    response_free(c->r);
    c->r = NULL;
  }
  return e;
}

// The answer, or NULL.
static response *look_up(model_cache *c, request *r, const char *key)
{
  cache_entry entry = {.count = 0};
  cache_copier copier = {.copy = copy_in, .factory = r->factory};
  AUTO_ERROR error *e = response_cache_look_up(c->cache, key, &entry, &copier);
  if (e == NULL)
    return copier.r;
  if (error_get_code(e) != ERROR_NOT_FOUND)
    log_verbose(1, "model '%s': the cache has no answer for key [%s]: %s", c->model->name, key,
                error_message(e));
  response_free(copier.r);
  return NULL;
}

static void count_hit(model_cache *c, request *r, uint64_t look_up_ns)
{
  latency_summaries *summaries = r->target->summaries;
  r->times.end = clock_monotonic_ns();
  statistics_count_cache_hit(&r->target->shared_statistics, &r->times, look_up_ns);
  if (c->summaries != NULL)
    sliding_quantiles_add(&c->summaries->hit, r->times.end, look_up_ns / 1000);
  if (summaries != NULL)
    latency_summaries_add_hit(summaries, &r->times);
}

// The answer takes its place in the order, behind requests dispatched before.
static void take_place(request *r, ordering *o)
{
  if (r->item.slot == NULL)
    return;
  ordering_reserve(o, r->item.slot);
  r->factory->ordering = o;
}

bool model_cache_answer(model_cache *c, request *r)
{
  char key[CACHE_KEY_SIZE];
  r->times.queue_start = r->times.start;
  if (!cache_key_make(&c->stamp, r, key))
    return false;
  uint64_t begun = clock_monotonic_ns();
  response *answer = look_up(c, r, key);
  uint64_t look_up_ns = clock_monotonic_ns() - begun;
  if (answer == NULL) {
    leave_ticket(c, r, key, look_up_ns);
    return false;
  }
  r->times.compute_start = begun;
  count_hit(c, r, look_up_ns);
  take_place(r, c->model->shared.ordering);
  error_free(response_send(answer, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL)); // the first one
  request_release(r, TRITONSERVER_REQUEST_RELEASE_ALL);
  return true;
}
