// Who may use what (docs/security.md): decided on the loop thread from the connection and the
// headers, before a body is taken.
#ifndef NEREID_FRONTEND_HTTP_ACCESS_H
#define NEREID_FRONTEND_HTTP_ACCESS_H

#include "base/slice.h"
#include "frontend/http/routes.h"

#include <stdbool.h>

struct sockaddr;
typedef struct exchange exchange;

// The value of a Host header, with or without port: "localhost" or a loopback address.
bool access_names_this_machine(slice host);

// An Origin header belongs to the site that Host names, or is that of no site.
bool access_is_same_site(slice origin, slice host);

// Refuses (403) who does not have the key that the category wants.
bool access_check_key(exchange *x, route_category category);

// Notes in x->stranger why the client does not count as being on this machine, or NULL, and refuses
// (403, 415) what the listener keeps to this machine. To be called when the route is known and the
// key was right.
bool access_admit(exchange *x);

// Code that comes with a request: `what` is named by the 403. Any thread that has the exchange.
bool access_admit_upload(exchange *x, const char *what);

#endif
