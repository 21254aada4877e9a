// SPDX-License-Identifier: Apache-2.0
// Plain sockets with system calls, TLS with GnuTLS, which libmicrohttpd needs anyway.
#include "frontend/grpc/transport/conn_wire.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TLS_PIECE_BYTES 16384 // a TLS record; short parts are joined up to this size

struct tls_context {
  const tls_identity *identity;
  gnutls_priority_t priority;
};

// ---- TLS: set-up ----

error *tls_context_new(const tls_identity *identity, tls_context **result)
{
  *result = NULL;
  if (identity->certificate == NULL)
    return NULL;
  tls_context *tls = calloc(1, sizeof(*tls));
  if (tls == NULL)
    return error_no_memory();
  tls->identity = identity;
  int status = gnutls_priority_init(&tls->priority, TLS_PRIORITIES, NULL);
  if (status >= 0) {
    *result = tls;
    return NULL;
  }
  tls_context_free(tls);
  return error_new(ERROR_UNAVAILABLE, "TLS cannot be set up for gRPC: %s", gnutls_strerror(status));
}

void tls_context_free(tls_context *tls)
{
  if (tls == NULL)
    return;
  if (tls->priority != NULL)
    gnutls_priority_deinit(tls->priority);
  free(tls);
}

static bool start_tls(conn_wire *w, tls_context *tls)
{
  const bool mutual = tls->identity->root != NULL;
  static const gnutls_datum_t protocol = {(unsigned char *)"h2", 2};
  if (gnutls_init(&w->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0)
    return false;
  gnutls_certificate_server_set_request(w->tls, mutual ? GNUTLS_CERT_REQUIRE : GNUTLS_CERT_IGNORE);
  if (mutual)
    gnutls_session_set_verify_cert(w->tls, NULL, 0);
  gnutls_transport_set_int(w->tls, w->fd);
  w->handshaking = true;
  return gnutls_priority_set(w->tls, tls->priority) >= 0 &&
         gnutls_credentials_set(w->tls, GNUTLS_CRD_CERTIFICATE,
                                tls_identity_credentials(tls->identity)) >= 0 &&
         gnutls_alpn_set_protocols(w->tls, &protocol, 1, GNUTLS_ALPN_MANDATORY) >= 0;
}

// ---- TLS: input and output ----

static ssize_t result_of(conn_wire *w, ssize_t result)
{
  w->wants_output = false;
  if (result >= 0)
    return result;
  if (result == GNUTLS_E_AGAIN || result == GNUTLS_E_INTERRUPTED) {
    w->wants_output = gnutls_record_get_direction(w->tls) == 1;
    errno = EAGAIN;
    return -1;
  }
  errno = result == GNUTLS_E_PREMATURE_TERMINATION ? ECONNRESET : EPROTO;
  return -1;
}

// 0 when the handshake is done; else as conn_wire_read.
static ssize_t shake_hands(conn_wire *w)
{
  int result;
  do
    result = gnutls_handshake(w->tls);
  while (result < 0 && result != GNUTLS_E_AGAIN && gnutls_error_is_fatal(result) == 0);
  if (result == GNUTLS_E_SUCCESS)
    w->handshaking = false;
  return result_of(w, result);
}

static ssize_t read_tls(conn_wire *w, void *to, size_t size)
{
  if (w->handshaking && shake_hands(w) < 0)
    return -1;
  ssize_t result;
  do
    result = gnutls_record_recv(w->tls, to, size);
  while (result == GNUTLS_E_INTERRUPTED);
  if (result == GNUTLS_E_REHANDSHAKE) // refused; the client may go on as before
    result = GNUTLS_E_AGAIN;
  return result_of(w, result);
}

// Joins short parts, so that they share a record.
static ssize_t write_tls(conn_wire *w, const struct iovec *parts, int count)
{
  char piece[TLS_PIECE_BYTES];
  size_t size = 0;
  if (w->handshaking)
    return result_of(w, GNUTLS_E_AGAIN);
  for (int i = 0; i < count && size < sizeof(piece); i++) {
    size_t room = sizeof(piece) - size;
    size_t step = parts[i].iov_len < room ? parts[i].iov_len : room;
    memcpy(piece + size, parts[i].iov_base, step);
    size += step;
  }
  ssize_t result;
  do
    result = gnutls_record_send(w->tls, piece, size);
  while (result == GNUTLS_E_INTERRUPTED);
  return result_of(w, result);
}

// ---- either ----

bool conn_wire_init(conn_wire *w, int socket_fd, tls_context *tls)
{
  *w = (conn_wire){.fd = socket_fd};
  return tls == NULL || start_tls(w, tls);
}

void conn_wire_end(conn_wire *w)
{
  if (w->tls != NULL && !w->handshaking)
    gnutls_bye(w->tls, GNUTLS_SHUT_WR); // as far as that is possible without waiting
  shutdown(w->fd, SHUT_WR);
}

void conn_wire_fini(conn_wire *w)
{
  if (w->tls != NULL)
    gnutls_deinit(w->tls);
  if (w->fd >= 0)
    close(w->fd);
  *w = (conn_wire){.fd = -1};
}

ssize_t conn_wire_read(conn_wire *w, void *to, size_t size)
{
  if (w->tls != NULL)
    return read_tls(w, to, size);
  ssize_t result;
  do
    result = recv(w->fd, to, size, 0);
  while (result < 0 && errno == EINTR);
  return result;
}

ssize_t conn_wire_write(conn_wire *w, const struct iovec *parts, int count)
{
  if (w->tls != NULL)
    return write_tls(w, parts, count);
  struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count};
  ssize_t result;
  do
    result = sendmsg(w->fd, &message, MSG_NOSIGNAL);
  while (result < 0 && errno == EINTR);
  return result;
}

bool conn_wire_holds_input(const conn_wire *w)
{
  return w->tls != NULL && !w->handshaking && gnutls_record_check_pending(w->tls) > 0;
}
