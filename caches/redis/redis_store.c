// SPDX-License-Identifier: Apache-2.0
// One lock guards the idle connections, the queue of writes and the state; nothing is sent or
// received under it. All connections belong to one generation: when one fails, all are closed, and
// the thread makes new ones when due (redis_backoff.h).
#include "caches/redis/redis_store.h"

#include "backend_error.h"
#include "backend_log.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/wakeup.h"
#include "caches/common/cache_common.h"
#include "caches/redis/redis_backoff.h"
#include "caches/redis/redis_link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MOST_QUEUED_BYTES ((size_t)64 << 20)
#define TELL_AGAIN_NS     UINT64_C(60000000000)
#define MOST_AT_A_TIME    32 // writes whose replies are awaited together

typedef enum store_metric {
  METRIC_UP,
  METRIC_LOSSES,
  METRIC_DROPPED,
  METRIC_COUNT,
} store_metric;

static const cache_metric_text metric_texts[METRIC_COUNT] = {
    [METRIC_UP] = {TRITONSERVER_METRIC_KIND_GAUGE, "nereid_cache_redis_up",
                   "Whether the Redis of the response cache is in use"},
    [METRIC_LOSSES] = {TRITONSERVER_METRIC_KIND_COUNTER, "nereid_cache_redis_losses_total",
                       "How often the Redis of the response cache was lost: gone, too slow or no "
                       "Redis"},
    [METRIC_DROPPED] = {TRITONSERVER_METRIC_KIND_COUNTER, "nereid_cache_redis_dropped_total",
                        "Answers that were not written to the Redis of the response cache"},
};

typedef enum store_use {
  USE_READ,
  USE_WRITE,
  USE_COUNT,
} store_use;

struct redis_store {
  redis_settings settings;
  redis_place place;
  pthread_mutex_t lock; // guards all below
  pthread_cond_t changed;
  redis_backoff backoff;
  uint64_t generation; // of the connections
  redis_link **idle;   // room for settings.link_count
  unsigned idle_count;
  redis_link *writer; // the thread's own; NULL while Redis is down
  list writes;        // redis_writes
  size_t queued_bytes;
  bool refused[USE_COUNT];        // the log's last message about this use was a refusal
  uint64_t refused_ns[USE_COUNT]; // when the log last reported a refusal; 0: never
  bool ending, was_up;
  pthread_t thread;
  cache_metric metrics[METRIC_COUNT];
};

static void show_state(const redis_store *s)
{
  cache_metric_set(&s->metrics[METRIC_UP], s->backoff.is_up ? 1 : 0);
}

// ---- losing it ----

// Empties the queue of writes. The lock is held.
static size_t drop_writes(redis_store *s)
{
  size_t count = 0;
  list_node *node;
  assert(lock_is_held(&s->lock));
  while ((node = list_first(&s->writes)) != NULL) {
    list_remove(node);
    free(container_of(node, redis_write, node));
    count++;
  }
  s->queued_bytes = 0;
  return count;
}

// A connection of `generation` has failed. Others of it may have failed before.
static void lose(redis_store *s, uint64_t generation, TRITONSERVER_Error *why_owned)
{
  redis_link *closed[MOST_REDIS_LINKS + 1];
  unsigned count = 0;
  size_t dropped = 0;
  pthread_mutex_lock(&s->lock);
  bool is_news =
      generation == s->generation && redis_backoff_lost(&s->backoff, clock_monotonic_ns());
  if (is_news) {
    s->generation++;
    while (s->idle_count > 0)
      closed[count++] = s->idle[--s->idle_count];
    dropped = drop_writes(s);
    show_state(s);
    pthread_cond_signal(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
  while (count > 0)
    redis_link_close(closed[--count]);
  if (is_news) {
    cache_metric_add(&s->metrics[METRIC_LOSSES], 1);
    cache_metric_add(&s->metrics[METRIC_DROPPED], (double)dropped);
    BACKEND_LOG_WARN("the response cache's Redis at %s:%s is lost (%s): answers are computed "
                     "until it is back",
                     s->settings.host, s->settings.port, TRITONSERVER_ErrorMessage(why_owned));
  }
  TRITONSERVER_ErrorDelete(why_owned);
}

// Whether to log the reply: a new refusal, at most once a minute, or the first success after one.
static bool is_told(redis_store *s, store_use use, bool refused)
{
  uint64_t now = clock_monotonic_ns();
  LOCK_SCOPE(&s->lock);
  if (refused == s->refused[use] ||
      (refused && s->refused_ns[use] != 0 && now - s->refused_ns[use] < TELL_AGAIN_NS))
    return false;
  s->refused[use] = refused;
  if (refused)
    s->refused_ns[use] = now;
  return true;
}

static void note_reply(redis_store *s, store_use use, const redis_reply *reply)
{
  bool refused = reply->kind == REPLY_ERROR;
  if (!is_told(s, use, refused))
    return;
  const char *what = use == USE_READ ? "look-ups" : "answers";
  if (refused)
    BACKEND_LOG_WARN("the response cache's Redis at %s:%s refuses %s: %.200s", s->settings.host,
                     s->settings.port, what, redis_reply_text(reply, 0).data);
  else
    BACKEND_LOG_INFO("the response cache's Redis at %s:%s takes %s again", s->settings.host,
                     s->settings.port, what);
}

// ---- getting it ----

static void close_links(redis_link **links, unsigned count)
{
  while (count > 0)
    redis_link_close(links[--count]);
}

// Opens all connections, the thread's own last; or none.
static TRITONSERVER_Error *open_links(const redis_store *s, redis_link **links)
{
  for (unsigned i = 0; i <= s->settings.link_count; i++) {
    uint64_t deadline = clock_monotonic_ns() + s->settings.connect_timeout_ns;
    TRITONSERVER_Error *e = redis_link_open(&s->place, deadline, &links[i]);
    if (e != NULL) {
      close_links(links, i);
      return e;
    }
  }
  return NULL;
}

// Called on the thread, or before it starts.
static TRITONSERVER_Error *connect_all(redis_store *s)
{
  redis_link *links[MOST_REDIS_LINKS + 1];
  redis_link_close(s->writer);
  s->writer = NULL;
  BACKEND_RETURN_IF_ERROR(open_links(s, links));
  LOCK_SCOPE(&s->lock);
  assert(s->idle_count == 0);
  s->writer = links[s->settings.link_count];
  memcpy(s->idle, links, s->settings.link_count * sizeof(links[0]));
  s->idle_count = s->settings.link_count;
  redis_backoff_up(&s->backoff, clock_monotonic_ns());
  show_state(s);
  return NULL;
}

static void reconnect(redis_store *s)
{
  TRITONSERVER_Error *e = connect_all(s);
  if (e != NULL) {
    LOCK_SCOPE(&s->lock);
    redis_backoff_lost(&s->backoff, clock_monotonic_ns());
    TRITONSERVER_ErrorDelete(e); // the loss has been logged
    return;
  }
  BACKEND_LOG_INFO("the response cache's Redis at %s:%s is %s", s->settings.host, s->settings.port,
                   s->was_up ? "back" : "there");
  s->was_up = true;
}

// ---- writing ----

static unsigned replies_of(const redis_store *s)
{
  return s->settings.ttl != NULL ? 2 : 1;
}

static TRITONSERVER_Error *send_write(redis_store *s, const redis_write *write, uint64_t deadline)
{
  write_command command;
  const char *expire[] = {"EXPIRE", write->key, s->settings.ttl};
  redis_write_command(write, &command);
  BACKEND_RETURN_IF_ERROR(
      redis_link_send(s->writer, command.count, command.words, command.sizes, deadline));
  return s->settings.ttl != NULL ? redis_link_send(s->writer, 3, expire, NULL, deadline) : NULL;
}

static TRITONSERVER_Error *write_batch(redis_store *s, redis_write *const *writes, size_t count)
{
  redis_reply reply = {0};
  TRITONSERVER_Error *e = NULL;
  uint64_t deadline = clock_monotonic_ns() + s->settings.connect_timeout_ns; // no request waits
  for (size_t i = 0; e == NULL && i < count; i++)
    e = send_write(s, writes[i], deadline);
  for (size_t i = 0; e == NULL && i < count * replies_of(s); i++) {
    e = redis_link_receive(s->writer, &reply, deadline);
    if (e != NULL || i % replies_of(s) != 0)
      continue;
    note_reply(s, USE_WRITE, &reply);
    if (reply.kind == REPLY_ERROR)
      cache_metric_add(&s->metrics[METRIC_DROPPED], 1);
  }
  redis_reply_fini(&reply);
  return e;
}

// Takes some writes from the queue. The lock is held.
static size_t take_writes(redis_store *s, redis_write **writes)
{
  size_t count = 0;
  list_node *node;
  assert(lock_is_held(&s->lock));
  while (count < MOST_AT_A_TIME && (node = list_first(&s->writes)) != NULL) {
    list_remove(node);
    writes[count] = container_of(node, redis_write, node);
    s->queued_bytes -= writes[count++]->bytes;
  }
  return count;
}

static void write_some(redis_store *s, uint64_t generation, redis_write *const *writes,
                       size_t count)
{
  TRITONSERVER_Error *e = write_batch(s, writes, count);
  for (size_t i = 0; i < count; i++)
    free(writes[i]);
  if (e != NULL)
    lose(s, generation, e);
}

// One step of the thread's work. The lock is held, and released during the step.
static void step(redis_store *s)
{
  redis_write *writes[MOST_AT_A_TIME];
  uint64_t generation = s->generation, due = redis_backoff_due_ns(&s->backoff);
  if (!s->backoff.is_up && clock_monotonic_ns() < due) {
    thread_wait(&s->changed, &s->lock, due);
    return;
  }
  if (s->backoff.is_up && list_is_empty(&s->writes)) {
    pthread_cond_wait(&s->changed, &s->lock);
    return;
  }
  size_t count = s->backoff.is_up ? take_writes(s, writes) : 0;
  pthread_mutex_unlock(&s->lock);
  if (count > 0)
    write_some(s, generation, writes, count);
  else
    reconnect(s);
  pthread_mutex_lock(&s->lock);
}

static void *run(void *store)
{
  redis_store *s = store;
  pthread_mutex_lock(&s->lock);
  while (!s->ending)
    step(s);
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

bool redis_store_takes(redis_store *s)
{
  LOCK_SCOPE(&s->lock);
  bool takes = s->backoff.is_up && s->queued_bytes < MOST_QUEUED_BYTES;
  if (!takes)
    cache_metric_add(&s->metrics[METRIC_DROPPED], 1);
  return takes;
}

void redis_store_put(redis_store *s, redis_write *write)
{
  pthread_mutex_lock(&s->lock);
  bool queued = s->backoff.is_up && s->queued_bytes < MOST_QUEUED_BYTES;
  if (queued) {
    list_append(&s->writes, &write->node);
    s->queued_bytes += write->bytes;
    pthread_cond_signal(&s->changed);
  }
  pthread_mutex_unlock(&s->lock);
  if (queued)
    return;
  cache_metric_add(&s->metrics[METRIC_DROPPED], 1);
  free(write);
}

// ---- reading ----

// NULL: no connection is free now.
static redis_link *take_link(redis_store *s, uint64_t *generation)
{
  LOCK_SCOPE(&s->lock);
  *generation = s->generation;
  return s->idle_count > 0 ? s->idle[--s->idle_count] : NULL;
}

static void give_link(redis_store *s, redis_link *link, uint64_t generation)
{
  pthread_mutex_lock(&s->lock);
  bool is_current = generation == s->generation;
  if (is_current)
    s->idle[s->idle_count++] = link;
  pthread_mutex_unlock(&s->lock);
  if (!is_current)
    redis_link_close(link);
}

bool redis_store_get(redis_store *s, const char *key, redis_reply *reply)
{
  uint64_t generation;
  const char *words[] = {"HGETALL", key};
  redis_link *link = take_link(s, &generation);
  if (link == NULL)
    return false;
  uint64_t deadline = clock_monotonic_ns() + s->settings.answer_timeout_ns;
  TRITONSERVER_Error *e = redis_link_send(link, 2, words, NULL, deadline);
  if (e == NULL)
    e = redis_link_receive(link, reply, deadline);
  if (e != NULL) {
    redis_link_close(link);
    lose(s, generation, e);
    return false;
  }
  give_link(s, link, generation);
  note_reply(s, USE_READ, reply);
  return reply->kind != REPLY_ERROR;
}

// ---- life ----

static TRITONSERVER_Error *begin(redis_store *s)
{
  BACKEND_RETURN_IF_ERROR(redis_place_init(&s->place, &s->settings));
  s->idle = calloc(s->settings.link_count, sizeof(*s->idle));
  if (s->idle == NULL)
    return backend_error_no_memory("connections to Redis");
  TRITONSERVER_Error *e = connect_all(s);
  s->was_up = e == NULL;
  if (e != NULL && !s->settings.optional) {
    TRITONSERVER_Error *told =
        backend_error(TRITONSERVER_ERROR_INTERNAL, "Failed to initialize RedisCache: %s",
                      TRITONSERVER_ErrorMessage(e));
    TRITONSERVER_ErrorDelete(e);
    return told;
  }
  if (e != NULL) {
    redis_backoff_lost(&s->backoff, clock_monotonic_ns());
    BACKEND_LOG_WARN("the response cache has no Redis yet (%s): answers are computed until it "
                     "is there",
                     TRITONSERVER_ErrorMessage(e));
    TRITONSERVER_ErrorDelete(e);
  }
  return NULL;
}

static void free_store(redis_store *s)
{
  close_links(s->idle, s->idle_count);
  redis_link_close(s->writer);
  free(s->idle);
  cache_metrics_fini(s->metrics, METRIC_COUNT);
  redis_place_fini(&s->place);
  redis_settings_fini(&s->settings);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

TRITONSERVER_Error *redis_store_new(redis_settings *settings, redis_store **result)
{
  redis_store *s = calloc(1, sizeof(*s));
  if (s == NULL) {
    redis_settings_fini(settings);
    return backend_error_no_memory("the response cache");
  }
  s->settings = *settings;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->changed, NULL);
  list_init(&s->writes);
  redis_backoff_init(&s->backoff, clock_monotonic_ns());
  cache_metrics_init(s->metrics, metric_texts, METRIC_COUNT);
  TRITONSERVER_Error *e = begin(s);
  if (e == NULL && thread_create(&s->thread, "redis-cache", run, s) != 0)
    e = backend_error(TRITONSERVER_ERROR_UNAVAILABLE, "no thread for the response cache");
  if (e != NULL) {
    free_store(s);
    return e;
  }
  *result = s;
  return NULL;
}

void redis_store_free(redis_store *s)
{
  pthread_mutex_lock(&s->lock);
  s->ending = true;
  wakeup_signal(s->place.end);
  pthread_cond_signal(&s->changed);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  pthread_mutex_lock(&s->lock);
  drop_writes(s);
  pthread_mutex_unlock(&s->lock);
  free_store(s);
}

unsigned redis_store_links(const redis_store *s)
{
  return s->settings.link_count;
}
