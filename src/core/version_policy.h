// SPDX-License-Identifier: Apache-2.0
// The version that a request goes to, and the versions that get a copy: pure functions of rules, of
// what is ready and of earlier requests. The rules' lock is held.
#ifndef NEREID_CORE_VERSION_POLICY_H
#define NEREID_CORE_VERSION_POLICY_H

#include "core/version_rules.h"

// Numbers below -1 that every function takes in place of a version.
#define VERSION_LATEST (-2) // the highest ready version

// The number of a label. Two labels have the same number once in 2^61.
int64_t version_number_of_label(slice label);
static inline bool version_number_is_label(int64_t number)
{
  return number < VERSION_LATEST && number >= -((int64_t)1 << 62);
}

// The number for "this version, or the main one if it is not ready any more"; `version` itself when
// it is too large for that.
int64_t version_number_of_choice(int64_t version);
// The version of such a number; 0: it is not such a number.
int64_t version_chosen(int64_t number);

// The rule for the next request. Each version gets exactly its share of every <sum of weights>
// requests, spread evenly. Versions that are not ready (ready[i] for split->items[i]) get none;
// the others share theirs. Requests with the same `key` (a sequence; size 0: none) get the same
// version as long as it is ready and the weights stay. NULL: none is ready.
version_rule *version_policy_split(version_rules *split, const bool *ready, slice key);

// The ready version with the greatest weight; of equal weights the highest version.
const version_rule *version_policy_main(const version_rules *split, const bool *ready);

// Whether the rule makes a copy of this request, which `served` serves: exactly its share of every
// million requests; with a `key`, of all its requests or of none.
bool version_policy_shadows(version_rule *rule, int64_t served, slice key);

#endif
