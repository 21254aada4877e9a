// SPDX-License-Identifier: Apache-2.0
// For tests of what the Python host does at a worker's word: a real channel, of which the test is
// the worker's side, and an instance whose worker has no process.
#ifndef NEREID_TESTS_UNIT_PYTHON_HOST_H
#define NEREID_TESTS_UNIT_PYTHON_HOST_H

#include "calls/calls.h"
#include "codec/protocol.h"

#include <stdlib.h>
#include <string.h>

static struct {
  worker_link *link;
  channel *worker; // its side
  python_backend backend;
  python_model model;
  python_instance instance;
  struct calls *calls;
} host;

static bool host_waits(const void *user)
{
  (void)user;
  return false;
}

static int host_begin(void **state)
{
  static const worker_events events = {.waits = host_waits};
  static const worker_settings settings = {.model = "played", .version = 1};
  (void)state;
  memset(&host, 0, sizeof host);
  pthread_mutex_init(&host.backend.lock, NULL);
  pthread_cond_init(&host.backend.unused, NULL);
  host.model = (python_model){.backend = &host.backend, .name = (char *)"played", .version = 1};
  host.instance.model = &host.model;
  host.instance.worker = worker_new(&settings, "played_0", &events, NULL);
  list_init(&host.instance.ahead.executions);
  request_table_init(&host.instance.requests);
  assert_null(worker_link_new(1 << 20, -1, &host.link));
  const int descriptor = channel_descriptor(host.link->channel);
  assert_int_equal(channel_attach(descriptor, &host.worker), 0);
  assert_null(CALLS.begin(&host.instance, host.link, &host.calls));
  assert_int_equal(host.backend.users, 1);
  return 0;
}

static void host_end_calls(void)
{
  CALLS.end(host.calls);
  host.calls = NULL;
}

static int host_end(void **state)
{
  (void)state;
  if (host.calls != NULL)
    host_end_calls();
  assert_int_equal(host.backend.users, 0); // nothing is held by what was under way
  channel_free(host.worker);
  worker_link_unref(host.link);
  worker_free(host.instance.worker);
  request_table_fini(&host.instance.requests);
  return 0;
}

// What the worker writes next; host_call sends it.
static uint8_t host_bytes[4096];
static wire_writer host_said;

static wire_writer *host_say(void)
{
  host_said = (wire_writer){.to = host_bytes, .room = sizeof host_bytes};
  return &host_said;
}

// What host_say was given, as a call. False: of an unknown kind.
static bool host_call(uint32_t kind, uint64_t id, uint32_t flags, uint64_t value)
{
  channel_message call = {.kind = kind, .id = id, .flags = flags, .value = value};
  if (host_said.size > 0) {
    assert_true(channel_allocate(host.worker, host_said.size, &call.offset));
    call.size = host_said.size;
    memcpy(channel_own(host.worker, call.offset), host_bytes, call.size);
  }
  host_say();
  return CALLS.handle(host.calls, &call);
}

// The next reply, whose control part is `reader`. False: there is none.
static bool host_reply(channel_message *reply, wire_reader *reader)
{
  if (channel_receive(host.worker, CHANNEL_REPLIES, 0, reply) != CHANNEL_MESSAGE)
    return false;
  const uint8_t *at =
      reply->size == 0 ? host_bytes : channel_other(host.worker, reply->offset, reply->size);
  assert_non_null(at);
  *reader = (wire_reader){.at = at, .end = at + reply->size};
  channel_done(host.worker, CHANNEL_REPLIES);
  return true;
}

static inline void assert_text(wire_reader *reader, const char *expected)
{
  size_t length;
  const char *text = wire_get_text(reader, &length);
  assert_false(reader->bad);
  if (strlen(expected) != length || memcmp(text, expected, length) != 0)
    fail_msg("%.*s\ninstead of: %s", (int)length, text, expected);
}

// The next reply is a plain one to call `id`.
static inline void assert_reply(uint64_t id, uint64_t value)
{
  channel_message reply;
  wire_reader reader;
  assert_true(host_reply(&reply, &reader));
  assert_int_equal(reply.id, id);
  assert_int_equal(reply.flags, REPLY_FINAL);
  assert_int_equal(reply.value, value);
}

static inline void assert_failed_reply(uint64_t id, uint32_t code, const char *text)
{
  channel_message reply;
  wire_reader reader;
  assert_true(host_reply(&reply, &reader));
  assert_int_equal(reply.id, id);
  assert_int_equal(reply.flags, REPLY_FINAL | REPLY_FAILED);
  assert_int_equal(wire_get_u32(&reader), code);
  assert_text(&reader, text);
}

static inline void assert_no_reply(void)
{
  channel_message reply;
  wire_reader reader;
  assert_false(host_reply(&reply, &reader));
}

#endif
