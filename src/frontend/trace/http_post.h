// Sends bytes to an http or https URL, by libcurl, which is opened with the first of these objects
// and stays: a server that sends nothing does not load it. One thread at a time.
#ifndef NEREID_FRONTEND_TRACE_HTTP_POST_H
#define NEREID_FRONTEND_TRACE_HTTP_POST_H

#include "base/error.h"
#include "base/slice.h"

typedef struct http_post http_post;

// For https: PEM files, read with each connection.
typedef struct http_post_tls {
  const char *authorities;       // NULL: the system's
  const char *certificate, *key; // our own; NULL: none
} http_post_tls;

// `headers` are lines "<Name>: <value>", NULL at the end; all is copied. UNAVAILABLE when libcurl
// cannot be opened.
error *http_post_new(const char *url, const char *const *headers, const http_post_tls *tls,
                     http_post **result);
void http_post_free(http_post *p); // NULL is allowed

// Waits for the answer, HTTP_POST_TIMEOUT_MS at most. UNAVAILABLE when there is none, or when its
// status is not 2xx.
#define HTTP_POST_TIMEOUT_MS 10000
error *http_post_send(http_post *p, slice body);

#endif
