// SPDX-License-Identifier: Apache-2.0
// The calls by which libmicrohttpd moves the bytes of HTTP (send, sendmsg, recv,
// gnutls_record_send, gnutls_record_recv) lead here first, in the whole program. A thread that runs
// libmicrohttpd says who looks at its bytes; all other threads go straight on.
//
// Three things have no other place. What came is judged before libmicrohttpd reads it, since each
// of its versions takes other things that are malformed (request_scan.h). It answers some requests
// itself, with a page of HTML, and 0.9.75 sends the head of some twice. And over TLS it sends the
// head of a reply and its body one by one.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_LIBRARY_CALLS_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_LIBRARY_CALLS_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct library_watch {
  // Bytes came. False when the client was answered and is to be left: they are dropped, and
  // libmicrohttpd is told that the connection is reset.
  bool (*received)(void *context, int socket_fd, char *data, size_t size);
  // Bytes that begin like the head of a reply that is none of a success are about to be sent;
  // `status` is what stands there. True when they are a page of libmicrohttpd's and the client was
  // answered in another way: they are dropped, and libmicrohttpd is told that the client has left,
  // by which it closes the connection. What this sends itself is not looked at.
  bool (*sends_error)(void *context, int socket_fd, unsigned status);
  // The socket of a TLS session that sends HTTP. NULL: there is no TLS.
  int (*socket_of)(gnutls_session_t session);
  // Sends over such a session, by `send` or in pieces of its own.
  ssize_t (*send_record)(gnutls_session_t session, const void *data, size_t size,
                         ssize_t (*send)(gnutls_session_t session, const void *data, size_t size));
  void *context;
} library_watch;

// Sets the watch of the calling thread, which must live as long as the thread runs libmicrohttpd;
// NULL: nobody looks.
void library_calls_watch(const library_watch *watch);

#endif
