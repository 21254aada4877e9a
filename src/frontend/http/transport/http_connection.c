// SPDX-License-Identifier: Apache-2.0
// One connection: its state, its request, and how it is refused. Loop thread.
#include "frontend/http/transport/http_registry.h"

#include "base/cleanup.h"
#include "base/state.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#define MAX_LINGER_BYTES  (UINT64_C(1) << 30)
#define LINGER_MORE_BYTES (64u << 10)

#define TO(state) STATE_BIT(CONNECTION_##state)

// The states that may follow each state, as bits. Only connections_close_idle sets
// CONNECTION_CLOSED.
static const unsigned allowed[] = {
    [CONNECTION_IDLE] = TO(HEADERS),
    [CONNECTION_HEADERS] = TO(HEADERS) | TO(BODY),
    [CONNECTION_BODY] = TO(BODY) | TO(RUNNING) | TO(REPLY) | TO(IDLE),
    [CONNECTION_RUNNING] = TO(RUNNING) | TO(REPLY) | TO(IDLE),
    [CONNECTION_REPLY] = TO(REPLY) | TO(RUNNING) | TO(IDLE), // RUNNING: a stream waits for its
                                                             // model again
    [CONNECTION_CLOSED] = 0,
};

bool connection_enter(connection *c, connection_state state)
{
  connection_state before = atomic_load_explicit(&c->state, memory_order_relaxed);
  c->received_bytes = 0;
  atomic_store_explicit(&c->since_ms, connections_now_ms(), memory_order_relaxed);
  if (before == CONNECTION_CLOSED)
    return false;
  state_assert(allowed, before, state);
  atomic_store_explicit(&c->state, state, memory_order_release);
  return true;
}

uint64_t connection_min_bytes(const listener_options *options, unsigned timeout_ms)
{
  uint64_t bytes = (uint64_t)options->min_rate * timeout_ms / 1000;
  return bytes > 0 ? bytes : 1;
}

void connection_received(connection *c, size_t size)
{
  const listener_options *options = c->all->options;
  c->received_bytes += size;
  if (c->received_bytes < connection_min_bytes(options, options->body_timeout_ms))
    return;
  c->received_bytes = 0;
  atomic_store_explicit(&c->since_ms, connections_now_ms(), memory_order_relaxed);
}

bool connection_set_exchange(connection *c, exchange *x)
{
  LOCK_SCOPE(&c->exchange_mutex);
  c->exchange = x;
  return c->left;
}

int connection_socket(const connection *c)
{
  return c->socket_fd;
}

const listener_options *connection_options(const connection *c)
{
  return c->all->options;
}

void connection_set_request(connection *c, exchange *x)
{
  tls_wire_established(&c->wire);
  if (x == NULL && c->request != NULL)
    request_scan_drop_first(&c->scan);
  c->request = x;
}

exchange *connection_request(const connection *c)
{
  return c->request;
}

const scan_fault *connection_read(connection *c, char *data, size_t size)
{
  request_scan_read(&c->scan, data, size);
  const scan_fault *fault = request_scan_first_fault(&c->scan);
  const scanned_request *due = request_scan_first(&c->scan);
  bool gets_exchange = due != NULL && due->has_head && c->request == NULL;
  return gets_exchange ? NULL : fault;
}

const scanned_request *connection_scanned(const connection *c)
{
  return request_scan_first(&c->scan);
}

const scan_fault *connection_fault(const connection *c)
{
  return request_scan_first_fault(&c->scan);
}

void connection_join_reply(connection *c)
{
  if (c->tls != NULL)
    tls_wire_join(&c->wire);
}

bool connection_is_surplus(connection *c)
{
  assert(atomic_load(&c->all->count) > 0); // this one
  if (c->surplus)
    c->surplus = connections_are_surplus(c->all, c->socket_fd, atomic_load(&c->all->count) - 1);
  return c->surplus;
}

#define INTERRUPTED (-2)

// Returns the number of bytes sent, INTERRUPTED, or another negative number.
static ssize_t send_some(const connection *c, const char *text, size_t size)
{
  if (c->tls != NULL) {
    ssize_t sent = gnutls_record_send(c->tls, text, size);
    return sent == GNUTLS_E_INTERRUPTED ? INTERRUPTED : sent < 0 ? -1 : sent;
  }
  ssize_t sent = send(c->socket_fd, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && errno == EINTR ? INTERRUPTED : sent;
}

// How many bytes of a refused client are read: the whole announced length and a little for TLS,
// unless it is absurdly long.
static uint64_t lingering_bytes(const connection *c, uint64_t announced)
{
  bool known = announced > 0 && announced <= MAX_LINGER_BYTES;
  return known ? announced + announced / 64 + LINGER_MORE_BYTES
               : 2 * (uint64_t)c->all->options->max_input_size;
}

void connection_refuse(connection *c, const char *text, size_t size, uint64_t announced)
{
  atomic_store(&c->closing, true);
  while (size > 0) {
    ssize_t sent = send_some(c, text, size);
    if (sent == INTERRUPTED)
      continue;
    if (sent <= 0)
      return; // the client has not even read earlier bytes
    text += sent;
    size -= (size_t)sent;
  }
  if (c->tls != NULL)
    gnutls_bye(c->tls, GNUTLS_SHUT_WR); // tells the client that the reply is complete
  if (linger_add(c->all->lingering, c->socket_fd, lingering_bytes(c, announced),
                 connections_now_ms()))
    connections_wake(c->all);
}
