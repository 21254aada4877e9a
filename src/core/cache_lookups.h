// SPDX-License-Identifier: Apache-2.0
// Threads that look requests up in a cache whose look-ups may wait, in place of threads that have
// other clients to serve. Each continues with its request afterwards.
#ifndef NEREID_CORE_CACHE_LOOKUPS_H
#define NEREID_CORE_CACHE_LOOKUPS_H

#include "base/error.h"

#include <stdbool.h>

typedef struct cache_lookups cache_lookups;
typedef struct TRITONSERVER_InferenceRequest request;

// Looks up a request, which the core owns, and continues with it: submit_looked_up.
typedef void cache_lookup(request *r_owned);

error *cache_lookups_new(unsigned threads, cache_lookup *look_up, cache_lookups **lookups);
// No request waits any more. NULL is allowed.
void cache_lookups_free(cache_lookups *lookups);

// Has a thread call `look_up` for the prepared request, which the core owns. False: the threads are
// behind, and the caller continues with the request. Any thread.
bool cache_lookups_add(cache_lookups *lookups, request *r);

#endif
