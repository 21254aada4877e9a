// SPDX-License-Identifier: Apache-2.0
// Access control (docs/security.md), decided from the connection and the headers before a body is
// taken. Loop thread.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_ACCESS_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_ACCESS_H

#include "base/slice.h"
#include "frontend/common/policy/access_policy.h"

#include <stdbool.h>

typedef struct exchange exchange;

// True if the Origin header names the same site as Host; false for "null".
bool access_is_same_site(slice origin, slice host);

// Refuses (403) a client without the key that the category wants.
bool access_check_key(exchange *x, route_category category);

// Refuses (403) an admin request if the category is closed. Sets x->remote_reason to the reason why
// the client may not bring code, or NULL. Call when the route is known and the key was right.
// `authority`: the host in the request's target, if any.
bool access_admit(exchange *x, slice authority);

#endif
