// SPDX-License-Identifier: Apache-2.0
// Who may use what (docs/security.md): decided on the loop thread from the connection and the
// headers, before a body is taken.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_ACCESS_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_ACCESS_H

#include "base/slice.h"
#include "frontend/common/policy/access_policy.h"

#include <stdbool.h>

typedef struct exchange exchange;

// An Origin header belongs to the site that Host names, or is that of no site.
bool access_is_same_site(slice origin, slice host);

// Refuses (403) who does not have the key that the category wants.
bool access_check_key(exchange *x, route_category category);

// Refuses (403) what the listener wants a key for and has none, and notes in x->remote_reason why
// the client may not bring code, or NULL. To be called when the route is known and the key was
// right. `authority`: the host of the request's target, if it names one.
bool access_admit(exchange *x, slice authority);

#endif
