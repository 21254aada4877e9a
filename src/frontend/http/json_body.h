// A request's body as a JSON tree, for the control endpoints. Job and loop threads.
#ifndef NEREID_FRONTEND_HTTP_JSON_BODY_H
#define NEREID_FRONTEND_HTTP_JSON_BODY_H

#include <jansson.h>
#include <stdbool.h>

typedef struct exchange exchange;

// The body as a JSON object, NULL for an empty one; the caller releases it. False when it is
// something else, or too large to be built: the exchange has failed.
bool json_body_parse(exchange *x, json_t **object);

#endif
