// SPDX-License-Identifier: Apache-2.0
// Which of the instances that have work may run, when running takes resources: Triton's rate
// limiter as pure functions, without lock, clock or thread. Called by core/rate_limiter.c, under
// its lock.
#ifndef NEREID_SCHEDULE_RATE_POLICY_H
#define NEREID_SCHEDULE_RATE_POLICY_H

#include "base/error.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// In place of a device's number.
#define RATE_GLOBAL      (-2) // a resource that all devices share
#define RATE_EACH_DEVICE (-1) // of a supply: that much on each device

// Who was idle may be before others by so many executions of its own, and no more: else an instance
// that is new would have everything until it has run as often as those that run since a week.
#define RATE_CREDIT 64

// So much of a resource there is, by the operator's word.
typedef struct rate_supply {
  const char *name;
  int64_t device; // or one of the two above
  uint64_t count;
} rate_supply;

// So much of it an execution takes.
typedef struct rate_wish {
  const char *name;
  int64_t device; // or RATE_GLOBAL
  uint64_t count;
} rate_wish;

typedef struct rate_resource rate_resource;

typedef enum rate_state {
  RATE_IDLE,
  RATE_WAITING,
  RATE_GRANTED, // it has its resources
} rate_state;

// An instance.
typedef struct rate_member {
  rate_state state;
  uint64_t step; // of one execution: max(priority, 1)
  uint64_t pass; // executions × step; the lowest is first
  struct rate_need *needs;
  size_t need_count;
  list_node node;         // among those that wait, by `pass`, then by arrival
  list_node members_node; // among all
} rate_member;

typedef struct rate_policy {
  const rate_supply *supplies; // borrowed; none: of each resource there is what the greediest takes
  size_t supply_count;
  list resources; // that somebody takes, by device and name
  list members;
  list waiting;
} rate_policy;

void rate_policy_init(rate_policy *p, const rate_supply *supplies, size_t count);
void rate_policy_fini(rate_policy *p); // no member is left

// Makes `m` a member. INVALID_ARG where it could never run, or where a name is that of a global
// resource and of one of a device; UNAVAILABLE when memory is short. Then nothing has changed.
error *rate_policy_join(rate_policy *p, rate_member *m, uint32_t priority, const rate_wish *wishes,
                        size_t count);
void rate_policy_leave(rate_policy *p, rate_member *m); // idle

// After each of these somebody may be granted: rate_policy_grant is to follow.
void rate_policy_ask(rate_policy *p, rate_member *m);
void rate_policy_withdraw(rate_policy *p, rate_member *m); // it waits
void rate_policy_release(rate_policy *p, rate_member *m, bool executed);

// The next one that gets what it asked for; NULL: none. In the order of `pass`; who comes later in
// that order gets what is left beside what those before it need, so that nobody is passed by for
// ever and nothing lies idle that nobody before could use.
rate_member *rate_policy_grant(rate_policy *p);

typedef struct rate_level {
  const char *name;
  int64_t device;
  uint64_t maximum, used;
} rate_level;

// Calls `visit` for each resource, by device and name.
void rate_policy_visit(const rate_policy *p, void (*visit)(void *context, const rate_level *level),
                       void *context);

// The first resource that a member which waits lacks, and how much it wants of it. False: none;
// then what there is is kept for those before it.
bool rate_policy_shortage(const rate_member *m, rate_level *level, uint64_t *wanted);

#endif
