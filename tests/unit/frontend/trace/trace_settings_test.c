// SPDX-License-Identifier: Apache-2.0
// Which requests are traced: sampling, and how settings of models follow those of the server.
#include "frontend/trace/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TIMESTAMPS TRITONSERVER_TRACE_LEVEL_TIMESTAMPS
#define TENSORS    TRITONSERVER_TRACE_LEVEL_TENSORS

typedef struct world {
  trace_settings all;
  size_t retired;
} world;

static void count_retired(void *context, trace_setting *old)
{
  ((world *)context)->retired++;
  trace_setting_unref(old);
}

static void begin(world *w, uint32_t level, uint32_t rate, int32_t count, const char *file)
{
  const trace_config config = {
      .values = {[TRACE_KEY_LEVEL] = level, [TRACE_KEY_RATE] = rate, [TRACE_KEY_COUNT] = count},
      .file = (char *)file};
  *w = (world){.all = {.retire = count_retired, .context = w}};
  assert_null(trace_settings_init(&w->all, &config));
}

static void end(world *w)
{
  trace_settings_fini(&w->all);
}

static void update(world *w, const char *model, const trace_update *u)
{
  error *e = trace_settings_update(&w->all, model, u);
  if (e != NULL)
    fail_msg("%s", error_message(e));
}

static void refused(world *w, const char *model, const trace_update *u, const char *text)
{
  error *e = trace_settings_update(&w->all, model, u);
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_string_equal(error_message(e), text);
  error_free(e);
}

// "x" for each request that is traced, "." for the others; upper case where its client traces it.
static void samples(world *w, const char *model, const char *requests, const char *expected)
{
  char seen[64] = "";
  for (size_t i = 0; requests[i] != '\0'; i++) {
    trace_setting *s = trace_settings_find(&w->all, model);
    seen[i] = trace_setting_sample(&w->all, s, requests[i] == 'C') ? 'x' : '.';
  }
  assert_string_equal(seen, expected);
}

static trace_update rate_of(uint32_t rate)
{
  return (trace_update){.given = {[TRACE_KEY_RATE] = true}, .values = {[TRACE_KEY_RATE] = rate}};
}

static trace_update level_of(uint32_t level)
{
  return (trace_update){.given = {[TRACE_KEY_LEVEL] = true}, .values = {[TRACE_KEY_LEVEL] = level}};
}

static trace_update count_of(int32_t count)
{
  return (trace_update){.given = {[TRACE_KEY_COUNT] = true}, .values = {[TRACE_KEY_COUNT] = count}};
}

static void each_rate_th_request_is_traced_until_the_count_is_at_its_end(void **state)
{
  (void)state;
  world w;
  begin(&w, TIMESTAMPS, 3, 2, "f");
  samples(&w, "m", "rrrrrrrrrr", "..x..x....");
  assert_int_equal(trace_settings_find(&w.all, "m")->values[TRACE_KEY_COUNT], 0);
  assert_true(atomic_load(&trace_settings_find(&w.all, "m")->exhausted));
  end(&w);
}

static void what_a_client_traces_is_traced_whatever_rate_and_count_say(void **state)
{
  (void)state;
  world w;
  begin(&w, TIMESTAMPS, 0, -1, "f"); // rate 0: nothing else
  samples(&w, "m", "rCrCr", ".x.x.");
  end(&w);
  begin(&w, TIMESTAMPS, 2, 1, "f");
  samples(&w, "m", "CrrrC", "xx..x");
  end(&w);
}

static void nothing_is_traced_when_it_is_off_or_there_is_no_file(void **state)
{
  (void)state;
  world w;
  begin(&w, TRITONSERVER_TRACE_LEVEL_DISABLED, 1, -1, "f");
  assert_false(trace_settings_any_on(&w.all));
  samples(&w, "m", "rr", "..");
  end(&w);
  begin(&w, TIMESTAMPS, 1, -1, "");
  assert_false(trace_settings_any_on(&w.all));
  samples(&w, "m", "rr", "..");
  end(&w);
}

static void models_follow_the_server_in_what_they_do_not_say(void **state)
{
  (void)state;
  world w;
  begin(&w, TIMESTAMPS, 10, -1, "f");
  trace_update own = level_of(TENSORS), slow = rate_of(100), few = count_of(5);
  update(&w, "m", &own);
  assert_int_equal(w.retired, 0); // nothing was replaced
  assert_int_equal(trace_settings_find(&w.all, "m")->values[TRACE_KEY_RATE], 10);
  update(&w, "", &slow);
  assert_int_equal(w.retired, 2); // the server's, and the model's that follows it
  assert_int_equal(trace_settings_find(&w.all, "m")->values[TRACE_KEY_RATE], 100);
  assert_int_equal(trace_settings_find(&w.all, "m")->values[TRACE_KEY_LEVEL], TENSORS);
  assert_int_equal(trace_settings_find(&w.all, "n")->values[TRACE_KEY_LEVEL], TIMESTAMPS);
  update(&w, "m", &few);
  assert_int_equal(trace_settings_find(&w.all, "m")->values[TRACE_KEY_COUNT], 5);
  assert_int_equal(trace_settings_find(&w.all, "")->values[TRACE_KEY_COUNT], -1);
  const trace_update clear = {
      .cleared = {[TRACE_KEY_LEVEL] = true, [TRACE_KEY_COUNT] = true, [TRACE_KEY_RATE] = true}};
  update(&w, "m", &clear); // it has nothing of its own any more
  assert_ptr_equal(trace_settings_find(&w.all, "m"), trace_settings_find(&w.all, "n"));
  update(&w, "", &clear); // back to how it started
  assert_int_equal(trace_settings_find(&w.all, "")->values[TRACE_KEY_RATE], 10);
  end(&w);
}

static void many_models_follow_the_server(void **state)
{
  (void)state;
  world w;
  char name[16];
  begin(&w, TIMESTAMPS, 10, -1, "f");
  const trace_update own = level_of(TENSORS), slow = rate_of(7);
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof(name), "m%d", i);
    update(&w, name, &own);
  }
  update(&w, "", &slow);
  for (int i = 0; i < 100; i++) {
    snprintf(name, sizeof(name), "m%d", i);
    assert_int_equal(trace_settings_find(&w.all, name)->values[TRACE_KEY_RATE], 7);
  }
  end(&w);
}

static void a_setting_that_would_trace_nothing_is_refused_unless_it_says_so(void **state)
{
  (void)state;
  world w;
  begin(&w, TIMESTAMPS, 1, -1, "f");
  const trace_update never = rate_of(0), none = count_of(0), off = level_of(0);
  refused(&w, "", &never, "Attempting to set invalid trace setting :sample rate must be non-zero");
  refused(&w, "m", &none, "Attempting to set invalid trace setting :");
  samples(&w, "m", "r", "x"); // nothing has changed
  update(&w, "m", &off);
  update(&w, "m", &never); // off it is in any case
  assert_true(trace_settings_any_on(&w.all));
  update(&w, "", &off);
  assert_false(trace_settings_any_on(&w.all));
  end(&w);
}

static void counts_begin_anew_with_each_setting(void **state)
{
  (void)state;
  world w;
  begin(&w, TIMESTAMPS, 2, 1, "f");
  samples(&w, "m", "rrrr", ".x..");
  const trace_update again = count_of(1);
  update(&w, "", &again);
  samples(&w, "m", "rrrr", ".x..");
  end(&w);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_rate_th_request_is_traced_until_the_count_is_at_its_end),
      cmocka_unit_test(what_a_client_traces_is_traced_whatever_rate_and_count_say),
      cmocka_unit_test(nothing_is_traced_when_it_is_off_or_there_is_no_file),
      cmocka_unit_test(models_follow_the_server_in_what_they_do_not_say),
      cmocka_unit_test(many_models_follow_the_server),
      cmocka_unit_test(a_setting_that_would_trace_nothing_is_refused_unless_it_says_so),
      cmocka_unit_test(counts_begin_anew_with_each_setting),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
