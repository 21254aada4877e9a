// SPDX-License-Identifier: Apache-2.0
// A request's key in a cache: equal keys mean that the answers are equal.
#ifndef NEREID_CORE_CACHE_KEY_H
#define NEREID_CORE_CACHE_KEY_H

#include "core/model.h"
#include "request/request.h"

#include <nettle/sha2.h>
#include <nettle/umac.h>

#define CACHE_KEY_SIZE (2 * SHA256_DIGEST_SIZE + 1) // hexadecimal digits and the NUL

// A hash for which nobody can find two equal inputs: UMAC with a secret of this process, which is
// faster, or SHA-256 for caches that are shared.
typedef struct cache_hash {
  bool has_secret;
  union {
    struct sha256_ctx open;
    struct umac128_ctx secret;
  } of;
} cache_hash;

// The beginning of all keys of a model version.
typedef struct cache_stamp {
  cache_hash begun;
} cache_stamp;

// Reads the model's files, on a load thread once the configuration is final. Where the files cannot
// be read (the log says so), and for an ensemble, the stamp is unique to this load. `secret` is
// response_cache_secret's.
void cache_stamp_make(const model *m, const uint8_t *secret, cache_stamp *stamp);

// `r` is prepared. False: it has no key, as an input is not in host memory or depends on the
// instance.
bool cache_key_make(const cache_stamp *stamp, const request *r, char key[CACHE_KEY_SIZE]);

#endif
