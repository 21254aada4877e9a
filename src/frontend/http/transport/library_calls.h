// SPDX-License-Identifier: Apache-2.0
// Replaces, in the whole program, the functions with which libmicrohttpd sends and receives (send,
// sendmsg, recv, gnutls_record_send, gnutls_record_recv). A thread that runs libmicrohttpd sets a
// watch on its bytes; on all other threads the functions just call the originals.
//
// Three things can be done nowhere else. Received bytes are checked before libmicrohttpd reads
// them, because each of its versions accepts other malformed requests (request_scan.h).
// libmicrohttpd answers some requests with an HTML page of its own, and 0.9.75 sends the head of
// some twice. And over TLS it sends a reply's head and body one by one.
#ifndef NEREID_FRONTEND_HTTP_TRANSPORT_LIBRARY_CALLS_H
#define NEREID_FRONTEND_HTTP_TRANSPORT_LIBRARY_CALLS_H

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct library_watch {
  // Bytes came. False when the client has been answered and must be closed: then the bytes are
  // dropped and libmicrohttpd sees a reset connection.
  bool (*received)(void *context, int socket_fd, char *data, size_t size);
  // libmicrohttpd is about to send the head of a reply whose `status` is not a success. True when
  // it is libmicrohttpd's own page and the client was answered otherwise: then the bytes are
  // dropped, libmicrohttpd sees that the client has left, and closes. Bytes that this function
  // sends are not watched.
  bool (*sends_error)(void *context, int socket_fd, unsigned status);
  // The socket of a TLS session. NULL: no TLS.
  int (*socket_of)(gnutls_session_t session);
  // Sends over a TLS session, with `send` or in its own pieces.
  ssize_t (*send_record)(gnutls_session_t session, const void *data, size_t size,
                         ssize_t (*send)(gnutls_session_t session, const void *data, size_t size));
  void *context;
} library_watch;

// Sets the calling thread's watch, which must stay valid while the thread runs libmicrohttpd; NULL
// ends it.
void library_calls_watch(const library_watch *watch);

#endif
