// SPDX-License-Identifier: Apache-2.0
// Decides which instances with work may run when executions need resources: Triton's rate limiter
// as pure functions, without lock, clock or thread. Called by core/rate_limiter.c under its lock.
#ifndef NEREID_SCHEDULE_RATE_POLICY_H
#define NEREID_SCHEDULE_RATE_POLICY_H

#include "base/error.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// In place of a device's number.
#define RATE_GLOBAL      (-2) // a resource that all devices share
#define RATE_EACH_DEVICE (-1) // in a supply: this amount on each device

// An idle or new instance may be ahead of others by at most this many of its own executions.
// Otherwise a new instance would get everything until it had run as often as the old ones.
#define RATE_CREDIT 64

// The amount of a resource that the operator gives.
typedef struct rate_supply {
  const char *name;
  int64_t device; // or one of the two above
  uint64_t count;
} rate_supply;

// The amount of a resource that one execution takes.
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
  uint64_t step; // added for each execution: max(priority, 1)
  uint64_t pass; // executions × step; the lowest goes first
  struct rate_need *needs;
  size_t need_count;
  list_node node;         // among the waiting members, by `pass`, then by arrival
  list_node members_node; // among all members
} rate_member;

typedef struct rate_policy {
  const rate_supply *supplies; // borrowed; none: there is what the largest user takes
  size_t supply_count;
  list resources; // the resources with users, by device and name
  list members;
  list waiting;
} rate_policy;

void rate_policy_init(rate_policy *p, const rate_supply *supplies, size_t count);
void rate_policy_fini(rate_policy *p); // it must have no members

// Makes `m` a member. INVALID_ARG if it could never run, or if one name means a global resource and
// a device's; UNAVAILABLE when memory is short. Nothing changes after an error.
error *rate_policy_join(rate_policy *p, rate_member *m, uint32_t priority, const rate_wish *wishes,
                        size_t count);
void rate_policy_leave(rate_policy *p, rate_member *m); // must be idle

// After each of these a member may be runnable: call rate_policy_grant.
void rate_policy_ask(rate_policy *p, rate_member *m);
void rate_policy_withdraw(rate_policy *p, rate_member *m); // must be waiting
void rate_policy_release(rate_policy *p, rate_member *m, bool executed);

// Grants the next member its resources; NULL: none. Members are served in the order of `pass`. A
// later member gets only what remains after the needs of all earlier ones: no member starves, and
// resources that earlier members do not need are used.
rate_member *rate_policy_grant(rate_policy *p);

typedef struct rate_level {
  const char *name;
  int64_t device;
  uint64_t maximum, used;
} rate_level;

// Calls `visit` for each resource, by device and name.
void rate_policy_visit(const rate_policy *p, void (*visit)(void *context, const rate_level *level),
                       void *context);

// The first resource that a waiting member lacks, and how much it wants. False: it lacks none, but
// the resources are reserved for earlier members.
bool rate_policy_shortage(const rate_member *m, rate_level *level, uint64_t *wanted);

#endif
