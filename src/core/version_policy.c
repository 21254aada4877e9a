// SPDX-License-Identifier: Apache-2.0
// Shares are spread by credit: each request adds every candidate's share to its credit, and takes
// the sum of shares from the candidate with most credit, which it goes to.
#include "core/version_policy.h"

#include "base/string_map.h"

#include <inttypes.h>

#define LABEL_NUMBERS ((uint64_t)1 << 61)
#define CHOICE_MAX    ((int64_t)1 << 61)

int64_t version_number_of_label(slice label)
{
  return VERSION_LATEST - 1 - (int64_t)(string_map_hash(label) % LABEL_NUMBERS);
}

int64_t version_number_of_choice(int64_t version)
{
  return version < CHOICE_MAX ? INT64_MIN + version : version;
}

int64_t version_chosen(int64_t number)
{
  return number < INT64_MIN + CHOICE_MAX ? number - INT64_MIN : 0;
}

static uint64_t sum_of(const version_rules *split, const bool *ready)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < split->count; i++)
    sum += ready[i] ? split->items[i].share : 0;
  return sum;
}

// Spreads the bits of a number over all its bits (MurmurHash3's finalizer).
static uint64_t mix(uint64_t h)
{
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
  return h ^ (h >> 33);
}

// FNV-1a, the same in every process: two servers give a sequence the same version.
static uint64_t hash_of(slice key)
{
  uint64_t h = 0xcbf29ce484222325u;
  for (size_t i = 0; i < key.size; i++)
    h = (h ^ (unsigned char)key.data[i]) * 0x100000001b3u;
  return mix(h);
}

static version_rule *find_share(version_rules *split, const bool *ready, uint64_t at)
{
  for (size_t i = 0; i < split->count; i++) {
    uint64_t share = ready == NULL || ready[i] ? split->items[i].share : 0;
    if (at < share)
      return &split->items[i];
    at -= share;
  }
  return NULL;
}

// Chooses among all versions first, so that the keys of other versions do not move when one comes
// or goes.
static version_rule *by_key(version_rules *split, const bool *ready, uint64_t ready_sum, slice key)
{
  uint64_t all = 0, hash = hash_of(key);
  for (size_t i = 0; i < split->count; i++)
    all += split->items[i].share;
  version_rule *rule = find_share(split, NULL, hash % all);
  return ready[rule - split->items] ? rule : find_share(split, ready, mix(hash) % ready_sum);
}

version_rule *version_policy_split(version_rules *split, const bool *ready, slice key)
{
  uint64_t sum = sum_of(split, ready);
  version_rule *best = NULL;
  if (sum == 0)
    return NULL;
  if (key.size > 0)
    return by_key(split, ready, sum, key);
  for (size_t i = 0; i < split->count; i++) {
    version_rule *rule = &split->items[i];
    if (!ready[i] || rule->share == 0)
      continue;
    rule->credit += rule->share;
    if (best == NULL || rule->credit > best->credit)
      best = rule;
  }
  best->credit -= (int64_t)sum;
  return best;
}

const version_rule *version_policy_main(const version_rules *split, const bool *ready)
{
  const version_rule *best = NULL;
  for (size_t i = 0; i < split->count; i++) {
    const version_rule *rule = &split->items[i];
    if (!ready[i] || rule->share == 0)
      continue;
    if (best == NULL || rule->share > best->share ||
        (rule->share == best->share && rule->version > best->version))
      best = rule;
  }
  return best;
}

bool version_policy_shadows(version_rule *rule, int64_t served, slice key)
{
  if (rule->version == served)
    return false;
  if (key.size > 0)
    return mix(hash_of(key)) % VERSION_SHARE_ALL < rule->share; // independent of the split
  rule->credit += rule->share;
  if (rule->credit < VERSION_SHARE_ALL)
    return false;
  rule->credit -= VERSION_SHARE_ALL;
  return true;
}
