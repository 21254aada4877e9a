// SPDX-License-Identifier: Apache-2.0
// The parts of the Redis cache that need no Redis: when to try again, replies, entries, settings.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "caches/redis/redis_backoff.h"
#include "caches/redis/redis_entry.h"
#include "caches/redis/redis_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

// ---- when to try again ----

static void waits_double_until_it_has_proved_itself(void **state)
{
  (void)state;
  redis_backoff b;
  uint64_t now = 5 * SECOND, wait = BACKOFF_LEAST_NS;
  redis_backoff_init(&b, now);
  assert_int_equal(redis_backoff_due_ns(&b), now);
  for (int i = 0; i < 12; i++) {
    assert_false(redis_backoff_lost(&b, now)); // it was not up
    assert_int_equal(redis_backoff_due_ns(&b), now + wait);
    wait = wait * 2 < BACKOFF_MOST_NS ? wait * 2 : BACKOFF_MOST_NS;
    now += SECOND;
  }
  redis_backoff_up(&b, now);
  assert_true(redis_backoff_lost(&b, now + BACKOFF_PROOF_NS - 1)); // too soon
  assert_int_equal(redis_backoff_due_ns(&b), now + BACKOFF_PROOF_NS - 1 + BACKOFF_MOST_NS);
  redis_backoff_up(&b, now);
  assert_true(redis_backoff_lost(&b, now + BACKOFF_PROOF_NS));
  assert_int_equal(redis_backoff_due_ns(&b), now + BACKOFF_PROOF_NS + BACKOFF_LEAST_NS);
}

// ---- replies ----

// In pieces of `step` bytes.
static reply_progress feed(reply_reader *r, redis_reply *reply, slice text, size_t step)
{
  reply_progress progress = REPLY_WANTS_MORE;
  reply_reader_begin(r, reply);
  for (size_t at = 0; at < text.size && progress == REPLY_WANTS_MORE; at += step)
    progress = reply_reader_feed(r, text.data + at, text.size - at < step ? text.size - at : step);
  return progress;
}

static void replies_are_read_in_any_pieces(void **state)
{
  (void)state;
  const slice list = SLICE("*3\r\n$3\r\nabc\r\n$0\r\n\r\n$4\r\n\r\n\0\r\r\n");
  for (size_t step = 1; step <= list.size; step++) {
    redis_reply reply = {0};
    reply_reader r;
    assert_true(reply_reader_init(&r));
    assert_int_equal(feed(&r, &reply, list, step), REPLY_COMPLETE);
    assert_int_equal(reply.kind, REPLY_LIST);
    assert_int_equal(reply.count, 3);
    assert_true(slice_equal_text(redis_reply_text(&reply, 0), "abc"));
    assert_int_equal(redis_reply_text(&reply, 1).size, 0);
    assert_memory_equal(redis_reply_text(&reply, 2).data, "\r\n\0\r", 4);
    assert_int_equal(feed(&r, &reply, SLICE("-OOM no\r\n"), step), REPLY_COMPLETE);
    assert_int_equal(reply.kind, REPLY_ERROR);
    assert_string_equal(redis_reply_text(&reply, 0).data, "OOM no");
    assert_int_equal(feed(&r, &reply, SLICE("+PONG\r\n"), step), REPLY_COMPLETE);
    assert_int_equal(reply.kind, REPLY_TEXT);
    assert_int_equal(feed(&r, &reply, SLICE(":12\r\n"), step), REPLY_COMPLETE);
    assert_int_equal(reply.kind, REPLY_NUMBER);
    assert_int_equal(feed(&r, &reply, SLICE("*0\r\n"), step), REPLY_COMPLETE);
    assert_int_equal(reply.kind, REPLY_LIST);
    assert_int_equal(reply.count, 0);
    reply_reader_fini(&r);
    redis_reply_fini(&reply);
  }
}

static void what_is_no_reply_is_told(void **state)
{
  (void)state;
  static const char *const texts[] = {
      "HTTP/1.1 400 Bad Request\r\n", "*65\r\n", "*1000000000\r\n", "*1\r\n*1\r\n:1\r\n", "$-7\r\n",
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    redis_reply reply = {0};
    reply_reader r;
    assert_true(reply_reader_init(&r));
    assert_int_equal(feed(&r, &reply, slice_of(texts[i]), 100), REPLY_DAMAGED);
    reply_reader_fini(&r);
    redis_reply_fini(&reply);
  }
}

// ---- entries ----

static bool read_entry(const char *const *texts, size_t count, slice buffers[MOST_BUFFERS],
                       size_t *found, redis_reply *reply)
{
  *reply = (redis_reply){.kind = REPLY_LIST};
  for (size_t i = 0; i < count; i++) {
    reply->texts[i].offset = reply->bytes.size;
    reply->texts[i].size = strlen(texts[i]);
    buffer_append(&reply->bytes, texts[i], strlen(texts[i]) + 1);
    reply->count++;
  }
  return redis_entry_read(reply, buffers, found);
}

#define READ(reply, found, buffers, ...)                                                           \
  read_entry((const char *const[]){__VA_ARGS__},                                                   \
             sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), buffers, found, reply)

static void entries_are_found_whatever_the_order_and_refused_if_a_field_is_wrong(void **state)
{
  (void)state;
  slice buffers[MOST_BUFFERS];
  size_t count;
  redis_reply reply;
  assert_true(READ(&reply, &count, buffers, "0:t", "0", "1:b", "second", "0:b", "abc", "0:s", "3",
                   "1:s", "6", "1:t", "1", "0:i", "0", "1:i", "0", "other", "x"));
  assert_int_equal(count, 2);
  assert_true(slice_equal_text(buffers[0], "abc") && slice_equal_text(buffers[1], "second"));
  redis_reply_fini(&reply);
  assert_false(READ(&reply, &count, buffers, "0:b", "abc", "0:s", "4", "0:t", "0"));
  redis_reply_fini(&reply);
  assert_false(READ(&reply, &count, buffers, "0:b", "abc", "0:s", "3x", "0:t", "0"));
  redis_reply_fini(&reply);
  assert_false(READ(&reply, &count, buffers, "0:b", "abc", "0:s", "3", "0:t", "2"));
  redis_reply_fini(&reply);
  assert_false(READ(&reply, &count, buffers, "0:b", "abc", "0:s", "3"));
  redis_reply_fini(&reply);
  assert_false(READ(&reply, &count, buffers, "0:b", "", "0:s", "0", "0:t", "0"));
  redis_reply_fini(&reply);
  assert_false(READ(&reply, &count, buffers, "0:s", "3", "0:t"));
  redis_reply_fini(&reply);
  assert_false(READ(&reply, &count, buffers, "no", "entry"));
  redis_reply_fini(&reply);
}

static void a_write_is_the_command_that_tritons_cache_sends(void **state)
{
  (void)state;
  char data[] = "abc";
  const redis_write write = {.key = (char *)"k", .count = 1, .buffers = {{data, 3}}};
  static const char *const expected[] = {"HSET", "k",   "0:b", "abc", "0:s",
                                         "3",    "0:t", "0",   "0:i", "0"};
  write_command *command = calloc(1, sizeof(*command));
  redis_write_command(&write, command);
  assert_int_equal(command->count, 10);
  for (int i = 0; i < command->count; i++)
    assert_true(slice_equal_text((slice){command->words[i], command->sizes[i]}, expected[i]));
  free(command);
}

// ---- settings ----

static void settings_are_tritons(void **state)
{
  (void)state;
  redis_settings s;
  setenv("TRITONCACHE_REDIS_USERNAME", "u", 1);
  setenv("TRITONCACHE_REDIS_PASSWORD", "p", 1);
  assert_null(redis_settings_read("{\"host\":\"h\",\"port\":\"6379\",\"password\":\"q\","
                                  "\"db\":\"3\",\"socket_timeout\":\"0\",\"pool_size\":\"2\","
                                  "\"connect_timeout\":\"7\",\"who\":\"knows\"}",
                                  &s));
  assert_string_equal(s.host, "h");
  assert_string_equal(s.port, "6379");
  assert_string_equal(s.user, "u");
  assert_string_equal(s.password, "q"); // the setting counts before the environment
  assert_string_equal(s.db, "3");
  assert_int_equal(s.link_count, 2);
  assert_int_equal(s.connect_timeout_ns, 7000000);
  assert_int_equal(s.answer_timeout_ns, 20000000); // never for ever
  assert_false(s.tls || s.optional);
  redis_settings_fini(&s);
  unsetenv("TRITONCACHE_REDIS_USERNAME");
  unsetenv("TRITONCACHE_REDIS_PASSWORD");
}

static void wrong_settings_are_named(void **state)
{
  (void)state;
  static const struct {
    const char *config, *text;
  } wrong[] = {
      {"{\"host\":\"h\"}", "Must at a minimum specify"},
      {"no json", "Must at a minimum specify"},
      {"{\"host\":\"h\",\"port\":\"1\",\"pool_size\":\"65\"}", "pool_size is '65'"},
      {"{\"host\":\"h\",\"port\":\"1\",\"ttl\":\"-1\"}", "ttl is '-1'"},
      {"{\"host\":\"h\",\"port\":\"1\",\"socket_timeout\":\"5s\"}", "socket_timeout is '5s'"},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    redis_settings s;
    TRITONSERVER_Error *e = redis_settings_read(wrong[i].config, &s);
    assert_non_null(e);
    assert_non_null(strstr(TRITONSERVER_ErrorMessage(e), wrong[i].text));
    TRITONSERVER_ErrorDelete(e);
    redis_settings_fini(&s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(waits_double_until_it_has_proved_itself),
      cmocka_unit_test(replies_are_read_in_any_pieces),
      cmocka_unit_test(what_is_no_reply_is_told),
      cmocka_unit_test(entries_are_found_whatever_the_order_and_refused_if_a_field_is_wrong),
      cmocka_unit_test(a_write_is_the_command_that_tritons_cache_sends),
      cmocka_unit_test(settings_are_tritons),
      cmocka_unit_test(wrong_settings_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
