// A request's body as a JSON tree, for the control endpoints. Job and loop threads.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_JSON_BODY_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_JSON_BODY_H

#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct exchange exchange;

// The body as a JSON object; the caller releases it. NULL for an empty one and for JSON of another
// kind, which says as little, as in Triton. Errors: it is no JSON, or too large to be built.
error *json_body_read(const exchange *x, json_t **object);

// The same; false: the exchange has failed.
bool json_body_parse(exchange *x, json_t **object);

#endif
