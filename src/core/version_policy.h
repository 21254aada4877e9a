// SPDX-License-Identifier: Apache-2.0
// Which version a request goes to, and which get a copy: pure functions of rules, of what is ready
// and of the requests before. Whoever owns the rules calls, under its lock.
#ifndef NEREID_CORE_VERSION_POLICY_H
#define NEREID_CORE_VERSION_POLICY_H

#include "core/version_rules.h"

// Versions as numbers below -1, which every function that takes a version takes.
#define VERSION_LATEST (-2) // the highest that is ready

// Of a label's name. Two names have the same number once in 2^61.
int64_t version_number_of_label(slice label);
static inline bool version_number_is_label(int64_t number)
{
  return number < VERSION_LATEST && number >= -((int64_t)1 << 62);
}

// "This version, or the main one where it is not ready any more"; `version` itself where it is too
// large for that.
int64_t version_number_of_choice(int64_t version);
// The version that was chosen; 0: the number is none of a choice.
int64_t version_chosen(int64_t number);

// The rule that the next request falls under: each version gets exactly its share of every
// <sum of weights> requests, spread evenly; those that are not ready (ready[i], for
// split->items[i]) get none, the others theirs. Requests of one `key` (a sequence; size 0: none)
// get the same version as long as it is ready and the weights stay. NULL: none is ready.
version_rule *version_policy_split(version_rules *split, const bool *ready, slice key);

// The ready version with the greatest weight, of equal ones the highest.
const version_rule *version_policy_main(const version_rules *split, const bool *ready);

// Does the request, which `served` serves, have a copy made by this rule? Of every million exactly
// the share, of one `key` all or none.
bool version_policy_shadows(version_rule *rule, int64_t served, slice key);

#endif
