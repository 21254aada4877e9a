// SPDX-License-Identifier: Apache-2.0
// The life of a listener, whatever it speaks: its socket, its requests, its end.
#include "frontend/common/net/listener.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct {
  const char *refusal; // of `start`
  unsigned stopped, freed;
  uint64_t deadline_ns;
} fake;

static error *start(listener *l)
{
  assert_true(l->socket.socket_fd >= 0);
  return fake.refusal != NULL ? error_new(ERROR_UNAVAILABLE, "%s", fake.refusal) : NULL;
}

static size_t drain_until(listener *l, uint64_t deadline_ns)
{
  assert_true(atomic_load(&l->leaving) && drain_has_begun(&l->drain));
  fake.deadline_ns = deadline_ns;
  return atomic_load(&l->busy);
}

static void stop(listener *l)
{
  assert_true(atomic_load(&l->leaving) && drain_has_begun(&l->drain));
  fake.stopped++;
}

static void free_parts(listener *l)
{
  (void)l;
  fake.freed++;
}

static const listener_protocol protocol = {.name = "test",
                                           .size = sizeof(listener),
                                           .start = start,
                                           .drain = drain_until,
                                           .stop = stop,
                                           .free = free_parts};

static char path[64], address[80];

static int begin(void **state)
{
  (void)state;
  memset(&fake, 0, sizeof(fake));
  snprintf(path, sizeof(path), "/tmp/listener_test.%d", (int)getpid());
  snprintf(address, sizeof(address), "unix:%s", path);
  return 0;
}

static listener_options options_of(char *where)
{
  return (listener_options){.listen = {.address = where}, .connection_limit = 1};
}

static void what_options_leave_open_is_decided(void **state)
{
  (void)state;
  listener *l = NULL;
  listener_options options = options_of(address);
  assert_null(listener_new(&protocol, &options, NULL, &l));
  assert_in_range(l->options.thread_count, 2, 8);
  assert_int_equal(l->options.connection_limit, 1);
  assert_true(l->options.max_inflight_bytes > 0);
  assert_int_equal(l->budget.limit, l->options.max_inflight_bytes);
  assert_string_equal(listener_where(l), address);
  listener_free(l);
  assert_true(fake.stopped == 1 && fake.freed == 1);
}

static void the_socket_goes_when_it_is_drained(void **state)
{
  (void)state;
  listener *l = NULL;
  listener_options options = options_of(address);
  assert_null(listener_new(&protocol, &options, NULL, &l));
  assert_int_equal(access(path, F_OK), 0);
  assert_int_equal(listener_drain(l, 7), 0);
  assert_int_equal(fake.deadline_ns, 7);
  assert_int_not_equal(access(path, F_OK), 0);
  listener_free(l);
}

static void the_last_request_frees_it(void **state)
{
  (void)state;
  listener *l = NULL;
  listener_options options = options_of(address);
  assert_null(listener_new(&protocol, &options, NULL, &l));
  listener_ref(l);
  listener_busy(l);
  assert_int_equal(listener_drain(l, 0), 1);
  listener_done(l);
  listener_free(l);
  assert_true(fake.stopped == 1 && fake.freed == 0);
  listener_unref(l);
  assert_int_equal(fake.freed, 1);
}

static void one_that_does_not_start_leaves_nothing(void **state)
{
  (void)state;
  listener *l = NULL;
  listener_options options = options_of(address);
  fake.refusal = "not today";
  AUTO_ERROR error *refused = listener_new(&protocol, &options, NULL, &l);
  assert_string_equal(error_message(refused), "not today");
  assert_true(l == NULL && fake.stopped == 1 && fake.freed == 1);
  assert_int_not_equal(access(path, F_OK), 0);
}

static void an_address_that_is_none_is_told(void **state)
{
  (void)state;
  listener *l = NULL;
  char nothing[] = "unix:";
  listener_options options = options_of(nothing);
  AUTO_ERROR error *refused = listener_new(&protocol, &options, NULL, &l);
  assert_int_equal(error_get_code(refused), ERROR_INVALID_ARG);
  assert_int_equal(fake.freed, 1);
  assert_null(listener_where(NULL));
  assert_int_equal(listener_drain(NULL, 0), 0);
  listener_announce_stop(NULL);
  listener_free(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(what_options_leave_open_is_decided, begin),
      cmocka_unit_test_setup(the_socket_goes_when_it_is_drained, begin),
      cmocka_unit_test_setup(the_last_request_frees_it, begin),
      cmocka_unit_test_setup(one_that_does_not_start_leaves_nothing, begin),
      cmocka_unit_test_setup(an_address_that_is_none_is_told, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
