// Code that a load request may bring along (docs/security.md): files, and configurations that name
// other code than the model has now. Job threads.
#ifndef NEREID_FRONTEND_HTTP_UPLOAD_H
#define NEREID_FRONTEND_HTTP_UPLOAD_H

#include "base/slice.h"

#include <stdbool.h>

typedef struct exchange exchange;

// May this client bring the load parameter `name` ("config", "file:<path>")? When not, the exchange
// has failed.
bool upload_admit(exchange *x, const char *name, slice value);

#endif
