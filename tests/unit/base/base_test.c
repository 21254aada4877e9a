// SPDX-License-Identifier: Apache-2.0
// The building blocks of src/base: arena, buffer, map, text, error, files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/refcount.h"
#include "base/string_list.h"
#include "base/string_map.h"
#include "base/text.h"
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void arena_gives_aligned_memory_that_does_not_overlap(void **state)
{
  (void)state;
  char initial[100];
  arena a;
  arena_init(&a, initial, sizeof(initial));
  char *pieces[200];
  for (size_t i = 0; i < 200; i++) {
    pieces[i] = arena_allocate(&a, 1 + i * 7);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % 16, 0);
    memset(pieces[i], (int)i, 1 + i * 7);
  }
  for (size_t i = 0; i < 200; i++) {
    for (size_t j = 0; j < 1 + i * 7; j++)
      assert_int_equal((unsigned char)pieces[i][j], i & 0xff);
  }
  volatile size_t huge = SIZE_MAX / 2;
  assert_null(arena_allocate_array(&a, huge, 3));
  arena_fini(&a);
}

static void json_strings_escape_controls_and_replace_broken_utf8(void **state)
{
  (void)state;
  static const struct {
    slice text;
    const char *json;
  } cases[] = {
      {SLICE("plain"), "\"plain\""},
      {SLICE("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\n\\u0001\""},
      {SLICE("gr\xc3\xbc\xc3\x9f"), "\"gr\xc3\xbc\xc3\x9f\""},
      {SLICE("x\xff\xc3y\xed\xa0\x80"),
       "\"x\xef\xbf\xbd\xef\xbf\xbdy\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
      {SLICE(""), "\"\""},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    AUTO_BUFFER buffer b = BUFFER_EMPTY;
    buffer_append_json_string(&b, cases[i].text);
    buffer_append_char(&b, '\0');
    assert_string_equal(b.data, cases[i].json);
  }
}

static void map_keeps_insertion_order_through_growth_and_removal(void **state)
{
  (void)state;
  string_map map = {0};
  static int values[1000];
  char key[16];
  for (int i = 0; i < 1000; i++) {
    snprintf(key, sizeof(key), "key%d", i);
    assert_true(string_map_put(&map, slice_of(key), &values[i]));
  }
  for (int i = 0; i < 1000; i += 2) {
    snprintf(key, sizeof(key), "key%d", i);
    assert_ptr_equal(string_map_remove(&map, slice_of(key)), &values[i]);
    assert_null(string_map_get(&map, slice_of(key)));
  }
  assert_true(string_map_put(&map, SLICE("key0"), &values[0]));
  size_t position = 0;
  string_map_entry *entry;
  for (int i = 1; i < 1000; i += 2) {
    entry = string_map_walk(&map, &position);
    assert_ptr_equal(entry->value, &values[i]);
  }
  assert_ptr_equal(string_map_walk(&map, &position)->value, &values[0]);
  assert_null(string_map_walk(&map, &position));
  string_map_fini(&map);
}

static void integers_are_read_whole_and_in_range_or_not_at_all(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    bool valid;
    int64_t value;
  } cases[] = {
      {"0", true, 0},    {"-1", true, -1},   {"+7", true, 7},
      {"", false, 0},    {"-", false, 0},    {"1a", false, 0},
      {" 1", false, 0},  {"0x10", false, 0}, {"9223372036854775807", true, INT64_MAX},
      {"1,1", false, 0}, {"1 ", false, 0},   {"9223372036854775808", false, 0},
      {"--1", false, 0}, {"1e3", false, 0},  {"-9223372036854775808", true, INT64_MIN},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    int64_t value = 0;
    assert_int_equal(text_to_int64(slice_of(cases[i].text), &value), cases[i].valid);
    assert_int_equal(value, cases[i].value);
  }
}

static void hexadecimal_digits_have_values_and_nothing_else_has(void **state)
{
  (void)state;
  static const char digits[] = "0123456789abcdefABCDEF";
  for (int c = -128; c < 128; c++) {
    const char *found = c != 0 ? strchr(digits, c) : NULL;
    int at = found == NULL ? -1 : (int)(found - digits);
    assert_int_equal(text_hex_digit((char)c), at < 16 ? at : at - 6);
  }
}

static void a_text_is_replaced_even_by_its_own_end(void **state)
{
  (void)state;
  char *text = NULL;
  assert_true(text_replace(&text, "first"));
  assert_string_equal(text, "first");
  assert_true(text_replace(&text, text + 2));
  assert_string_equal(text, "rst");
  free(text);
}

static void errors_keep_their_code_when_wrapped(void **state)
{
  (void)state;
  error *e = error_new(ERROR_NOT_FOUND, "no '%s'", "x");
  e = error_wrap(e, "model '%s'", "m");
  assert_int_equal(error_get_code(e), ERROR_NOT_FOUND);
  assert_string_equal(error_message(e), "model 'm': no 'x'");
  error_free(e);
}

typedef struct shared_object {
  refcount references;
  int written[4]; // by a thread each, with no other order than that of the references
} shared_object;

typedef struct holder {
  shared_object *object;
  int index;
} holder;

static void *write_and_drop(void *argument)
{
  const holder *h = argument;
  h->object->written[h->index] = 1;
  if (!refcount_drop(&h->object->references))
    return NULL;
  int seen = 0; // TSan looks on
  for (int i = 0; i < 4; i++)
    seen += h->object->written[i];
  free(h->object);
  return seen == 4 ? argument : NULL;
}

static void who_drops_the_last_reference_sees_what_the_others_wrote(void **state)
{
  (void)state;
  for (int round = 0; round < 200; round++) {
    pthread_t threads[4];
    holder holders[4];
    int last = 0;
    shared_object *object = calloc(1, sizeof(*object));
    assert_non_null(object);
    refcount_init(&object->references);
    for (int i = 1; i < 4; i++)
      refcount_take(&object->references);
    for (int i = 0; i < 4; i++) {
      holders[i] = (holder){object, i};
      assert_int_equal(pthread_create(&threads[i], NULL, write_and_drop, &holders[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
      void *result;
      pthread_join(threads[i], &result);
      last += result != NULL;
    }
    assert_int_equal(last, 1);
  }
}

static char scratch[] = "/tmp/nereid-base-XXXXXX";

static void write_scratch(const char *name, const char *text)
{
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", scratch, name);
  for (char *slash = path + sizeof(scratch); (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    mkdir(path, 0755);
    *slash = '/';
  }
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void the_tightest_quota_from_the_own_control_group_up_counts(void **state)
{
  (void)state;
  char mount[64], membership[64], command[64];
  assert_non_null(mkdtemp(scratch));
  snprintf(mount, sizeof(mount), "%s/cgroup", scratch);
  snprintf(membership, sizeof(membership), "%s/membership", scratch);
  const machine_groups groups = {membership, mount};
  assert_int_equal(machine_cpus_in(&groups, 8), 8); // no groups at all
  write_scratch("membership", "5:memory:/other\n3:cpuacct,cpu:/v1/a\n0::/v2/a\n");
  write_scratch("cgroup/v2/a/cpu.max", "max 100000\n");
  assert_int_equal(machine_cpus_in(&groups, 8), 8);
  write_scratch("cgroup/v2/cpu.max", "650000 100000\n");
  assert_int_equal(machine_cpus_in(&groups, 8), 7);
  assert_int_equal(machine_cpus_in(&groups, 4), 4);
  write_scratch("cgroup/cpu/v1/a/cpu.cfs_quota_us", "-1\n");
  write_scratch("cgroup/cpu/v1/a/cpu.cfs_period_us", "100000\n");
  assert_int_equal(machine_cpus_in(&groups, 8), 7);
  write_scratch("cgroup/cpu/v1/cpu.cfs_quota_us", "300000\n");
  write_scratch("cgroup/cpu/v1/cpu.cfs_period_us", "100000\n");
  assert_int_equal(machine_cpus_in(&groups, 8), 3);
  write_scratch("cgroup/cpu.max", "1000 100000\n"); // of the mount itself
  assert_int_equal(machine_cpus_in(&groups, 8), 1);
  write_scratch("membership", "0::/not/seen/here\n");
  write_scratch("cgroup/cpu.max", "200000 100000\n");
  assert_int_equal(machine_cpus_in(&groups, 8), 2);
  snprintf(command, sizeof(command), "rm -r %s", scratch);
  assert_int_equal(system(command), 0);
}

static void a_list_of_strings_is_an_argument_vector(void **state)
{
  (void)state;
  string_list list = {0};
  for (int i = 0; i < 20; i++)
    assert_true(string_list_add_format(&list, "--%s=%d", "number", i));
  assert_true(string_list_add(&list, ""));
  assert_int_equal(list.count, 21);
  assert_string_equal(list.items[19], "--number=19");
  assert_string_equal(list.items[20], "");
  assert_null(list.items[21]); // also where there was just room for the last
  for (size_t i = 0; i < list.count; i++)
    assert_non_null(list.items[i]);
  assert_false(list.failed);
  string_list_fini(&list);
  assert_null(list.items);
}

static void *take_mask(void *mask)
{
  pthread_sigmask(SIG_BLOCK, NULL, mask);
  return NULL;
}

static void a_thread_blocks_all_signals_but_those_of_its_own_faults(void **state)
{
  (void)state;
  static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
  sigset_t mask;
  pthread_t thread;
  assert_null(thread_start(&thread, "masked", take_mask, &mask));
  pthread_join(thread, NULL);
  for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
    assert_int_equal(sigismember(&mask, faults[i]), 0);
  assert_int_equal(sigismember(&mask, SIGTERM), 1);
  assert_int_equal(sigismember(&mask, SIGINT), 1);
  assert_int_equal(sigismember(&mask, SIGHUP), 1);
  assert_int_equal(sigismember(&mask, SIGUSR1), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_gives_aligned_memory_that_does_not_overlap),
      cmocka_unit_test(json_strings_escape_controls_and_replace_broken_utf8),
      cmocka_unit_test(map_keeps_insertion_order_through_growth_and_removal),
      cmocka_unit_test(integers_are_read_whole_and_in_range_or_not_at_all),
      cmocka_unit_test(hexadecimal_digits_have_values_and_nothing_else_has),
      cmocka_unit_test(a_text_is_replaced_even_by_its_own_end),
      cmocka_unit_test(errors_keep_their_code_when_wrapped),
      cmocka_unit_test(a_list_of_strings_is_an_argument_vector),
      cmocka_unit_test(the_tightest_quota_from_the_own_control_group_up_counts),
      cmocka_unit_test(a_thread_blocks_all_signals_but_those_of_its_own_faults),
      cmocka_unit_test(who_drops_the_last_reference_sees_what_the_others_wrote),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
