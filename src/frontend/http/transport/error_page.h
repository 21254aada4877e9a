// SPDX-License-Identifier: Apache-2.0
// libmicrohttpd answers some requests itself, before anybody here has seen them or in the middle of
// their body: with a page of HTML, and 0.9.75 sends the head of some of these pages twice. It has
// no setting for that and tells nobody. So the calls by which it sends (send, sendmsg,
// gnutls_record_send) lead here first, in the whole program: a thread that runs libmicrohttpd says
// who looks at the heads of errors, and all other threads and bytes go straight on.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_ERROR_PAGE_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_ERROR_PAGE_H

#include <gnutls/gnutls.h>
#include <stdbool.h>

// Is told of bytes that are about to be sent and begin like the head of an error's reply; `status`
// is what stands there. True when they are a page of libmicrohttpd's and the client was answered in
// another way: they are dropped, and libmicrohttpd is told that the client has left, by which it
// closes the connection. What it sends itself is not looked at.
typedef bool (*error_page_taker)(void *context, int socket_fd, unsigned status);

// The socket of a TLS session that sends HTTP.
typedef int error_page_socket(gnutls_session_t session);

// Sets the taker of the calling thread.
void error_page_set_taker(error_page_taker taker, error_page_socket *socket_of, void *context);

// What is wrong with a request that got such a page and of which nothing else is known.
const char *error_page_text(unsigned status);

#endif
