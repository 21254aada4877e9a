// SPDX-License-Identifier: Apache-2.0
// One lock around the policy. A thread that waits for a grant sleeps on its permit's own waiter.
#include "core/rate_limiter.h"

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "schedule/waiter.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WOKEN_AFTER 8 // so many threads are woken after the lock is released, further ones under it
#define PATIENCE_NS UINT64_C(60000000000) // after this wait a warning

struct rate_limiter {
  rate_supply *supplies;
  pthread_mutex_t lock; // guards the policy and all permits
  rate_policy policy;
};

struct rate_permit {
  rate_limiter *limiter;
  rate_member member;
  waiter waiter;
  const char *group; // of the configuration
  bool ended;
};

// ---- supplies: the setting's group is the device, its name the resource ----

static uint64_t count_of(const char *text)
{
  uint64_t count = 0;
  text_to_uint64(slice_of(text), &count); // rate_limiter_supply has printed it
  return count;
}

error *rate_limiter_supply(setting_list *supplies, const char *name, uint64_t count, int device)
{
  char group[24], text[24];
  snprintf(group, sizeof(group), "%d", device);
  snprintf(text, sizeof(text), "%" PRIu64, count);
  const char *known = setting_list_get(supplies, group, name);
  if (known != NULL && count_of(known) <= count)
    return NULL;
  return setting_list_put(supplies, group, name, text);
}

static rate_supply *read_supplies(const setting_list *words)
{
  rate_supply *supplies = calloc(words->count + 1, sizeof(*supplies));
  for (size_t i = 0; supplies != NULL && i < words->count; i++) {
    supplies[i] =
        (rate_supply){.name = words->items[i].name, .count = count_of(words->items[i].value)};
    text_to_int64(slice_of(words->items[i].group), &supplies[i].device);
  }
  return supplies;
}

error *rate_limiter_new(const server_options *options, rate_limiter **l)
{
  *l = NULL;
  if (options->rate_limiter_mode == TRITONSERVER_RATE_LIMIT_OFF)
    return NULL;
  rate_limiter *made = calloc(1, sizeof(*made));
  rate_supply *supplies = made != NULL ? read_supplies(&options->rate_limiter_resources) : NULL;
  if (supplies == NULL) {
    free(made);
    return error_no_memory();
  }
  made->supplies = supplies;
  rate_policy_init(&made->policy, supplies, options->rate_limiter_resources.count);
  pthread_mutex_init(&made->lock, NULL);
  *l = made;
  return NULL;
}

void rate_limiter_free(rate_limiter *l)
{
  if (l == NULL)
    return;
  rate_policy_fini(&l->policy);
  pthread_mutex_destroy(&l->lock);
  free(l->supplies);
  free(l);
}

// ---- turns ----

// Grants what can be granted and wakes those threads, except `own`. Unlocks.
static void grant_and_unlock(rate_limiter *l, const rate_permit *own)
{
  assert(lock_is_held(&l->lock));
  waiter *woken[WOKEN_AFTER];
  size_t count = 0;
  for (rate_member *m; (m = rate_policy_grant(&l->policy)) != NULL;) {
    rate_permit *permit = container_of(m, rate_permit, member);
    waiter_signal(&permit->waiter);
    if (permit == own)
      continue;
    if (count < WOKEN_AFTER)
      woken[count++] = &permit->waiter;
    else
      waiter_wake(&permit->waiter);
  }
  pthread_mutex_unlock(&l->lock);
  for (size_t i = 0; i < count; i++)
    waiter_wake(woken[i]);
}

bool rate_limiter_try(rate_permit *permit)
{
  rate_limiter *l = permit->limiter;
  pthread_mutex_lock(&l->lock);
  rate_policy_ask(&l->policy, &permit->member);
  rate_member *granted = rate_policy_grant(&l->policy);
  // All others that could be granted were granted at the last change.
  assert(granted == NULL || granted == &permit->member);
  if (granted == NULL)
    rate_policy_withdraw(&l->policy, &permit->member);
  pthread_mutex_unlock(&l->lock);
  return granted != NULL;
}

// Unlocks. True: granted at once, or ended.
static bool ask_and_unlock(rate_permit *permit)
{
  rate_limiter *l = permit->limiter;
  waiter_reset(&permit->waiter);
  if (permit->ended)
    waiter_signal(&permit->waiter);
  else
    rate_policy_ask(&l->policy, &permit->member);
  grant_and_unlock(l, permit);
  return atomic_load_explicit(&permit->waiter.signalled, memory_order_relaxed) != 0;
}

bool rate_limiter_ask(rate_permit *permit)
{
  pthread_mutex_lock(&permit->limiter->lock);
  return ask_and_unlock(permit);
}

static void report_long_wait(rate_permit *permit)
{
  rate_level level = {0};
  uint64_t wanted = 0;
  LOCK_SCOPE(&permit->limiter->lock);
  if (permit->member.state == RATE_WAITING &&
      rate_policy_shortage(&permit->member, &level, &wanted))
    log_warning("instance group '%s' has waited 60 seconds for %" PRIu64
                " of resource '%.100s' (%" PRIu64 " of %" PRIu64 " in use): it waits on",
                permit->group, wanted, level.name, level.used, level.maximum);
}

bool rate_limiter_wait(rate_permit *permit)
{
  waiter_sleep(&permit->waiter, clock_monotonic_ns() + PATIENCE_NS);
  if (atomic_load_explicit(&permit->waiter.signalled, memory_order_acquire) == 0)
    report_long_wait(permit); // once for each wait
  waiter_sleep(&permit->waiter, CLOCK_NEVER);
  return permit->member.state == RATE_GRANTED; // no other thread changes it any more
}

void rate_limiter_release(rate_permit *permit, bool executed)
{
  rate_limiter *l = permit->limiter;
  pthread_mutex_lock(&l->lock);
  rate_policy_release(&l->policy, &permit->member, executed);
  grant_and_unlock(l, NULL);
}

bool rate_limiter_release_and_ask(rate_permit *permit)
{
  rate_limiter *l = permit->limiter;
  pthread_mutex_lock(&l->lock);
  rate_policy_release(&l->policy, &permit->member, true);
  return ask_and_unlock(permit);
}

void rate_limiter_end(rate_permit *permit)
{
  rate_limiter *l = permit->limiter;
  pthread_mutex_lock(&l->lock);
  permit->ended = true;
  bool waits = permit->member.state == RATE_WAITING;
  if (waits) {
    rate_policy_withdraw(&l->policy, &permit->member);
    waiter_signal(&permit->waiter);
  }
  grant_and_unlock(l, NULL);
  if (waits)
    waiter_wake(&permit->waiter);
}

// ---- permits ----

error *rate_limiter_join(rate_limiter *l, const Inference__ModelInstanceGroup *group,
                         int32_t device, rate_permit **permit)
{
  static const Inference__ModelRateLimiter nothing = INFERENCE__MODEL_RATE_LIMITER__INIT;
  const Inference__ModelRateLimiter *wanted =
      group->rate_limiter != NULL ? group->rate_limiter : &nothing;
  rate_wish *wishes = calloc(wanted->n_resources + 1, sizeof(*wishes));
  rate_permit *made = calloc(1, sizeof(*made));
  if (wishes == NULL || made == NULL) {
    free(wishes);
    free(made);
    return error_no_memory();
  }
  for (size_t i = 0; i < wanted->n_resources; i++)
    wishes[i] = (rate_wish){.name = wanted->resources[i]->name,
                            .device = wanted->resources[i]->global ? RATE_GLOBAL : device,
                            .count = wanted->resources[i]->count};
  made->limiter = l;
  made->group = group->name;
  pthread_mutex_lock(&l->lock);
  error *e =
      rate_policy_join(&l->policy, &made->member, wanted->priority, wishes, wanted->n_resources);
  grant_and_unlock(l, NULL); // there may be more of a resource than before
  free(wishes);
  *permit = e == NULL ? made : NULL;
  if (e != NULL)
    free(made);
  return e;
}

void rate_limiter_leave(rate_permit *permit)
{
  if (permit == NULL)
    return;
  rate_limiter *l = permit->limiter;
  pthread_mutex_lock(&l->lock);
  rate_policy_leave(&l->policy, &permit->member);
  grant_and_unlock(l, NULL);
  free(permit);
}

// ---- metrics ----

typedef struct level_families {
  metrics_sheet *sheet;
  metrics_family *there, *used;
} level_families;

static void add_level(void *context, const rate_level *level)
{
  level_families *f = context;
  AUTO_BUFFER buffer labels = BUFFER_EMPTY;
  char device[24] = "global";
  if (level->device != RATE_GLOBAL)
    snprintf(device, sizeof(device), "%" PRId64, level->device);
  const metric_label named[] = {{"resource", level->name}, {"device", device}};
  if (!metrics_render_labels(&labels, named, 2)) {
    f->sheet->failed = true;
    return;
  }
  metrics_family_add_integer(f->there, buffer_view(&labels), level->maximum);
  metrics_family_add_integer(f->used, buffer_view(&labels), level->used);
}

void rate_limiter_collect(rate_limiter *l, metrics_sheet *sheet)
{
  if (l == NULL)
    return;
  level_families families = {
      .sheet = sheet,
      .there = metrics_sheet_family(sheet, METRIC_GAUGE, "nereid_rate_limiter_resource_count",
                                    "How much of a resource there is"),
      .used = metrics_sheet_family(sheet, METRIC_GAUGE, "nereid_rate_limiter_resource_used",
                                   "How much of a resource executions have"),
  };
  pthread_mutex_lock(&l->lock);
  rate_policy_visit(&l->policy, add_level, &families);
  pthread_mutex_unlock(&l->lock);
}
