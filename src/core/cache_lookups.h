// SPDX-License-Identifier: Apache-2.0
// Threads that look requests up in a cache which waits for somebody, so that no thread that has
// other clients to serve does; each goes on with its request from there.
#ifndef NEREID_CORE_CACHE_LOOKUPS_H
#define NEREID_CORE_CACHE_LOOKUPS_H

#include "base/error.h"

#include <stdbool.h>

typedef struct cache_lookups cache_lookups;
typedef struct TRITONSERVER_InferenceRequest request;

// Looks a request up and goes on with it, which is the core's: submit_looked_up.
typedef void cache_lookup(request *r_owned);

error *cache_lookups_new(unsigned threads, cache_lookup *look_up, cache_lookups **lookups);
// Nothing waits any more. NULL is allowed.
void cache_lookups_free(cache_lookups *lookups);

// Has a thread call `look_up` for the prepared request, which is the core's. False: the
// threads are behind, and the request is the caller's to go on with. Any thread.
bool cache_lookups_add(cache_lookups *lookups, request *r);

#endif
