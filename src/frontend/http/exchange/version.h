// The model version that a path names.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_VERSION_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_VERSION_H

#include <stdbool.h>
#include <stdint.h>

typedef struct exchange exchange;

// -1 when the path names none. False when the number is out of range: the exchange has failed.
bool version_of(exchange *x, int64_t *version);

#endif
