// SPDX-License-Identifier: Apache-2.0
// See rate_policy.h. A resource exists while a member uses it.
#include "schedule/rate_policy.h"

#include "base/state.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct rate_resource {
  list_node node;
  int64_t device;
  uint64_t maximum;  // amount available
  uint64_t used;     // may exceed `maximum` for a while after its largest user has left
  uint64_t reserved; // within rate_policy_grant: for earlier members
  uint64_t furthest; // largest `pass` of a member that got any
  size_t users;
  char name[];
};

typedef struct rate_need {
  rate_resource *resource;
  uint64_t count;
} rate_need;

void rate_policy_init(rate_policy *p, const rate_supply *supplies, size_t count)
{
  *p = (rate_policy){.supplies = supplies, .supply_count = count};
  list_init(&p->resources);
  list_init(&p->members);
  list_init(&p->waiting);
}

void rate_policy_fini(rate_policy *p)
{
  assert(list_is_empty(&p->resources) && list_is_empty(&p->members));
  (void)p;
}

static void set_state(rate_member *m, rate_state to)
{
  static const unsigned allowed[] = {
      [RATE_IDLE] = STATE_BIT(RATE_WAITING),
      [RATE_WAITING] = STATE_BIT(RATE_GRANTED) | STATE_BIT(RATE_IDLE),
      [RATE_GRANTED] = STATE_BIT(RATE_IDLE),
  };
  state_assert(allowed, m->state, to);
  m->state = to;
}

// ---- resources and their users ----

// The resource of this device and name, made if there is none. NULL when memory is short.
static rate_resource *find_resource(rate_policy *p, const rate_wish *wish)
{
  list_node *next = &p->resources.ends;
  list_foreach (rate_resource, r, node, &p->resources) {
    int order = r->device != wish->device ? (r->device > wish->device ? 1 : -1)
                                          : strcmp(r->name, wish->name);
    if (order == 0)
      return r;
    if (order > 0) {
      next = &r->node;
      break;
    }
  }
  size_t size = strlen(wish->name) + 1;
  rate_resource *made = calloc(1, sizeof(*made) + size);
  if (made == NULL)
    return NULL;
  memcpy(made->name, wish->name, size);
  made->device = wish->device;
  list_insert_before(next, &made->node);
  return made;
}

// As in Triton, the last of several wishes for the same resource counts.
static bool add_need(rate_policy *p, rate_member *m, const rate_wish *wish)
{
  rate_resource *r = find_resource(p, wish);
  if (r == NULL)
    return false;
  for (size_t i = 0; i < m->need_count; i++)
    if (m->needs[i].resource == r) {
      m->needs[i].count = wish->count;
      return true;
    }
  m->needs[m->need_count++] = (rate_need){r, wish->count};
  r->users++;
  return true;
}

// ---- amounts ----

// The largest amount that the operator gives. A global resource need not be given as global.
static uint64_t supplied(const rate_policy *p, const rate_resource *r)
{
  uint64_t most = 0;
  for (size_t i = 0; i < p->supply_count; i++) {
    const rate_supply *s = &p->supplies[i];
    bool fits = r->device == RATE_GLOBAL || s->device == r->device || s->device == RATE_EACH_DEVICE;
    if (fits && strcmp(s->name, r->name) == 0 && s->count > most)
      most = s->count;
  }
  return most;
}

static uint64_t greediest(const rate_policy *p, const rate_resource *r)
{
  uint64_t most = 0;
  list_foreach (rate_member, m, members_node, &p->members) {
    for (size_t i = 0; i < m->need_count; i++)
      if (m->needs[i].resource == r && m->needs[i].count > most)
        most = m->needs[i].count;
  }
  return most;
}

static error *measure(rate_policy *p)
{
  list_foreach (rate_resource, r, node, &p->resources) {
    uint64_t least = greediest(p, r);
    r->maximum = p->supply_count > 0 ? supplied(p, r) : least;
    if (r->maximum < least)
      return error_new(ERROR_INVALID_ARG,
                       "Resource count for \"%s\" is limited to %" PRIu64
                       " which will prevent scheduling of one or more model instances, the minimum "
                       "required count is %" PRIu64,
                       r->name, r->maximum, least);
  }
  return NULL;
}

static error *find_ambiguous(const rate_policy *p)
{
  list_foreach (rate_resource, global, node, &p->resources) {
    if (global->device != RATE_GLOBAL)
      break; // global resources come first
    list_foreach (rate_resource, r, node, &p->resources) {
      if (r->device != RATE_GLOBAL && strcmp(r->name, global->name) == 0)
        return error_new(ERROR_INVALID_ARG,
                         "Resource \"%s\" is present as both global and device-specific resource "
                         "in the model configuration.",
                         r->name);
    }
  }
  return NULL;
}

// ---- members ----

static void drop_needs(rate_member *m)
{
  for (size_t i = 0; i < m->need_count; i++) {
    rate_resource *r = m->needs[i].resource;
    if (--r->users > 0)
      continue;
    assert(r->used == 0);
    list_remove(&r->node);
    free(r);
  }
  free(m->needs);
  m->needs = NULL;
  m->need_count = 0;
}

error *rate_policy_join(rate_policy *p, rate_member *m, uint32_t priority, const rate_wish *wishes,
                        size_t count)
{
  *m = (rate_member){.step = priority > 1 ? priority : 1};
  m->needs = calloc(count + 1, sizeof(*m->needs));
  bool complete = m->needs != NULL;
  for (size_t i = 0; i < count && complete; i++)
    complete = add_need(p, m, &wishes[i]);
  if (!complete) {
    drop_needs(m);
    return error_no_memory();
  }
  list_append(&p->members, &m->members_node);
  error *e = measure(p);
  if (e == NULL)
    e = find_ambiguous(p);
  if (e != NULL)
    rate_policy_leave(p, m);
  return e;
}

void rate_policy_leave(rate_policy *p, rate_member *m)
{
  assert(m->state == RATE_IDLE);
  list_remove(&m->members_node);
  drop_needs(m);
  error_free(measure(p)); // the others had enough before
}

// ---- turns ----

void rate_policy_ask(rate_policy *p, rate_member *m)
{
  uint64_t credit = RATE_CREDIT * m->step;
  for (size_t i = 0; i < m->need_count; i++) {
    uint64_t furthest = m->needs[i].resource->furthest;
    if (furthest > credit && m->pass < furthest - credit)
      m->pass = furthest - credit;
  }
  set_state(m, RATE_WAITING);
  list_node *next = &p->waiting.ends;
  for (list_node *before; (before = list_previous(&p->waiting, next)) != NULL; next = before)
    if (container_of(before, rate_member, node)->pass <= m->pass)
      break;
  list_insert_before(next, &m->node);
}

void rate_policy_withdraw(rate_policy *p, rate_member *m)
{
  (void)p;
  list_remove(&m->node);
  set_state(m, RATE_IDLE);
}

static bool is_enough(const rate_member *m)
{
  for (size_t i = 0; i < m->need_count; i++) {
    const rate_resource *r = m->needs[i].resource;
    uint64_t count = m->needs[i].count;
    if (count > 0 && r->used + r->reserved + count > r->maximum)
      return false;
  }
  return true;
}

static void take(rate_member *m)
{
  for (size_t i = 0; i < m->need_count; i++) {
    rate_resource *r = m->needs[i].resource;
    r->used += m->needs[i].count;
    if (m->pass > r->furthest)
      r->furthest = m->pass;
  }
  list_remove(&m->node);
  set_state(m, RATE_GRANTED);
}

rate_member *rate_policy_grant(rate_policy *p)
{
  list_foreach (rate_resource, r, node, &p->resources)
    r->reserved = 0;
  list_foreach (rate_member, m, node, &p->waiting) {
    if (is_enough(m)) {
      take(m);
      return m;
    }
    for (size_t i = 0; i < m->need_count; i++)
      m->needs[i].resource->reserved += m->needs[i].count;
  }
  return NULL;
}

void rate_policy_release(rate_policy *p, rate_member *m, bool executed)
{
  (void)p;
  for (size_t i = 0; i < m->need_count; i++) {
    assert(m->needs[i].resource->used >= m->needs[i].count);
    m->needs[i].resource->used -= m->needs[i].count;
  }
  if (executed && __builtin_add_overflow(m->pass, m->step, &m->pass))
    m->pass = UINT64_MAX;
  set_state(m, RATE_IDLE);
}

static rate_level level_of(const rate_resource *r)
{
  return (rate_level){.name = r->name, .device = r->device, .maximum = r->maximum, .used = r->used};
}

bool rate_policy_shortage(const rate_member *m, rate_level *level, uint64_t *wanted)
{
  for (size_t i = 0; i < m->need_count; i++) {
    const rate_resource *r = m->needs[i].resource;
    if (r->used + m->needs[i].count <= r->maximum)
      continue;
    *level = level_of(r);
    *wanted = m->needs[i].count;
    return true;
  }
  return false;
}

void rate_policy_visit(const rate_policy *p, void (*visit)(void *context, const rate_level *level),
                       void *context)
{
  list_foreach (const rate_resource, r, node, &p->resources) {
    const rate_level level = level_of(r);
    visit(context, &level);
  }
}
