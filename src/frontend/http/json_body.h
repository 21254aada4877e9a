// A control request's body as JSON. Any thread that has the exchange.
#ifndef NEREID_FRONTEND_HTTP_JSON_BODY_H
#define NEREID_FRONTEND_HTTP_JSON_BODY_H

#include <jansson.h>
#include <stdbool.h>

typedef struct exchange exchange;

// The body as a JSON object, which the caller releases; NULL for an empty one. False when it is
// something else: the exchange has failed.
bool json_body_parse(exchange *x, json_t **object);

#endif
