// What the access log says of an HTTP request, gathered while it lives. All of it is left out, for
// one test, when there is no access log. Loop threads.
#ifndef NEREID_FRONTEND_HTTP_EXCHANGE_ACCESS_ENTRY_H
#define NEREID_FRONTEND_HTTP_EXCHANGE_ACCESS_ENTRY_H

#include <stddef.h>

typedef struct exchange exchange;

// The first line of a request and its headers are there.
void access_entry_begin(exchange *x, const char *method, const char *path);

// `size` bytes of the body came.
void access_entry_add_bytes(exchange *x, size_t size);

// The request is over with this status: the line is written.
void access_entry_end(exchange *x, unsigned status);

#endif
