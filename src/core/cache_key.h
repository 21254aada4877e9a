// SPDX-License-Identifier: Apache-2.0
// What a request is known by in a cache: equal keys mean that the answers are equal.
#ifndef NEREID_CORE_CACHE_KEY_H
#define NEREID_CORE_CACHE_KEY_H

#include "core/model.h"
#include "request/request.h"

#include <nettle/sha2.h>
#include <nettle/umac.h>

#define CACHE_KEY_SIZE (2 * SHA256_DIGEST_SIZE + 1) // hexadecimal digits, and the end

// A hash that nobody can find equal ones for: UMAC with a secret of this process, which is faster,
// or for caches that are shared SHA-256.
typedef struct cache_hash {
  bool has_secret;
  union {
    struct sha256_ctx open;
    struct umac128_ctx secret;
  } of;
} cache_hash;

// What all keys of a model version begin with.
typedef struct cache_stamp {
  cache_hash begun;
} cache_stamp;

// Reads the model's files: on a load thread, once its configuration is final. Where they cannot be
// read the stamp is that of this load alone, and the log says so. `secret` is the cache's
// (response_cache_secret).
void cache_stamp_make(const model *m, const uint8_t *secret, cache_stamp *stamp);

// False: the request's inputs are not all in the host's memory, or depend on the instance. `r` is
// prepared.
bool cache_key_make(const cache_stamp *stamp, const request *r, char key[CACHE_KEY_SIZE]);

#endif
