// SPDX-License-Identifier: Apache-2.0
// Keys of restricted categories: the flag's form, whose value comes from where, who is let in.
#include "frontend/common/policy/access_policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_error(restrictions *set, const char *text, const char *words)
{
  error *e = restrictions_add(set, "api", "", text);
  if (e == NULL)
    fail_msg("'%s' was taken", text);
  if (strstr(error_message(e), words) == NULL)
    fail_msg("'%s': %s", text, error_message(e));
  error_free(e);
}

static void flags_of_another_form_are_refused_and_not_repeated(void **state)
{
  (void)state;
  static const char *const malformed[] = {"",           "inference",       "inference:key",
                                          "inference:", "inference:=v",    "inference=key:v",
                                          ":",          "inference:a b=v", "inference:a\x01=v"};
  for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
    restrictions set = {0};
    expect_error(&set, malformed[i], "expected <api>[,<api>...]:<key>=<value>");
    restrictions_fini(&set);
  }
  restrictions set = {0};
  expect_error(&set, "inference:key=", "1 to 4096 bytes");
  expect_error(&set, "inference:key= x", "without blanks");
  expect_error(&set, "inference:key=x\ny", "one line");
  expect_error(&set, "inference:key=env:NO_SUCH_VARIABLE_HERE", "NO_SUCH_VARIABLE_HERE");
  expect_error(&set, "inference:key=file:/no/such/file", "/no/such/file");
  restrictions_fini(&set);
}

static void a_category_is_known_and_stands_in_one_group(void **state)
{
  (void)state;
  restrictions set = {0};
  expect_error(&set, "inferences:k=v",
               "unknown restricted api 'inferences', expected one of health, metadata, inference, "
               "shared-memory, model-config, model-repository, statistics, trace, logging");
  expect_error(&set, ":k=v", "unknown restricted api ''");
  expect_error(&set, "trace,:k=v", "unknown restricted api ''");
  restrictions_fini(&set);
  expect_error(&set, "health,health:k=v",
               "restricted api 'health' can not be specified in multiple config groups");
  restrictions_fini(&set);
  assert_null(restrictions_add(&set, "api", "", "health,trace:k=v"));
  expect_error(&set, "logging,trace:other=w", "restricted api 'trace' can not be specified");
  restrictions_fini(&set);
}

// A request with fields of one name.
typedef struct fields {
  const char *name;
  const char *values[3];
} fields;

static size_t look_up(void *fields_pointer, const char *name, slice *value)
{
  const fields *f = fields_pointer;
  size_t count = 0;
  if (strcmp(name, f->name) != 0)
    return 0;
  while (count < 3 && f->values[count] != NULL)
    count++;
  if (count > 0)
    *value = slice_of(f->values[0]);
  return count;
}

static bool admits(const restrictions *set, fields f)
{
  return restrictions_admit(set, CATEGORY_TRACE, look_up, &f);
}

static void only_the_whole_key_once_lets_in(void **state)
{
  (void)state;
  restrictions set = {0};
  assert_null(restrictions_add(&set, "api", "", "trace:key=Secret=1:2"));
  assert_true(admits(&set, (fields){"key", {"Secret=1:2"}}));
  assert_false(admits(&set, (fields){"key", {NULL}}));
  assert_false(admits(&set, (fields){"other", {"Secret=1:2"}}));
  static const char *const wrong[] = {
      "",           "S",          "Secret=1:",   "Secret=1:23", "secret=1:2",
      "xecret=1:2", "Secret=1:x", "Secret=1:2 ", " Secret=1:2", "Secret=1:2,Secret=1:2"};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
    if (admits(&set, (fields){"key", {wrong[i]}}))
      fail_msg("'%s' was taken for the key", wrong[i]);
  assert_false(admits(&set, (fields){"key", {"Secret=1:2", "Secret=1:2"}}));
  assert_false(admits(&set, (fields){"key", {"Secret=1:2", "x"}}));
  fields none = {"key", {NULL}};
  assert_true(restrictions_admit(&set, CATEGORY_HEALTH, look_up, &none)); // not restricted
  restrictions_fini(&set);
}

static void values_come_from_files_and_variables(void **state)
{
  (void)state;
  char path[] = "/tmp/restricted_test_XXXXXX";
  char flag[64];
  restrictions set = {0};
  int file = mkstemp(path);
  assert_true(file >= 0);
  assert_int_equal(write(file, "from a file\r\n\n", 14), 14);
  snprintf(flag, sizeof(flag), "trace:key=file:%s", path);
  assert_null(restrictions_add(&set, "api", "prefix-", flag));
  assert_true(admits(&set, (fields){"prefix-key", {"from a file"}}));
  restrictions_fini(&set);
  assert_int_equal(ftruncate(file, 0), 0);
  expect_error(&set, flag, path);
  expect_error(&set, flag, "1 to 4096 bytes");
  assert_int_equal(ftruncate(file, 5000), 0);
  expect_error(&set, flag, "4096");
  close(file);
  unlink(path);
  setenv("RESTRICTED_TEST_KEY", "from a variable", 1);
  assert_null(restrictions_add(&set, "api", "", "trace:key=env:RESTRICTED_TEST_KEY"));
  assert_true(admits(&set, (fields){"key", {"from a variable"}}));
  restrictions_fini(&set);
}

static void what_is_open_elsewhere_is_listed(void **state)
{
  (void)state;
  AUTO_BUFFER buffer names = BUFFER_EMPTY;
  restrictions http = {0}, grpc = {0};
  assert_null(restrictions_add(&http, "api", "", "trace,inference,health:k=v"));
  assert_null(restrictions_add(&grpc, "protocol", RESTRICTED_GRPC_PREFIX, "health:k=v"));
  restrictions_list_open(&http, &grpc, &names);
  assert_true(slice_equal_text(buffer_view(&names), "inference, trace"));
  restrictions_list_open(&grpc, &http, &names);
  assert_int_equal(names.size, strlen("inference, trace"));
  restrictions_fini(&http);
  restrictions_fini(&grpc);
}

static size_t look_up_given(void *given, const char *name, slice *value)
{
  (void)name;
  *value = slice_of(given);
  return 1;
}

static bool lets_in(const restrictions *set, const char *key)
{
  return restrictions_admit(set, CATEGORY_TRACE, look_up_given, (void *)key);
}

static void values_change_and_nothing_else(void **state)
{
  (void)state;
  restrictions set = {0}, fresh = {0};
  bool changed;
  assert_null(restrictions_add(&set, "api", "", "trace,logging:k=one"));
  assert_null(restrictions_add(&fresh, "api", "", "logging,trace:k=one"));
  assert_int_equal(restrictions_difference(&set, &fresh), CATEGORY_COUNT);
  assert_null(restrictions_renew(&set, &fresh, &changed));
  assert_false(changed);
  restrictions_fini(&fresh);
  static const char *const values[] = {"trace,logging:k=two", "trace,logging:k=three"};
  for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
    assert_null(restrictions_add(&fresh, "api", "", values[i]));
    assert_null(restrictions_renew(&set, &fresh, &changed));
    assert_true(changed && !lets_in(&set, "one") && lets_in(&set, strchr(values[i], '=') + 1));
    restrictions_fini(&fresh);
  }
  assert_false(lets_in(&set, "two"));
  assert_true(restrictions_admit(&set, CATEGORY_INFERENCE, look_up_given, NULL));
  static const char *const others[] = {"trace:k=one", "trace,logging,health:k=one",
                                       "trace,logging:l=one"};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
    assert_null(restrictions_add(&fresh, "api", "", others[i]));
    assert_int_not_equal(restrictions_difference(&set, &fresh), CATEGORY_COUNT);
    restrictions_fini(&fresh);
  }
  restrictions_fini(&set);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flags_of_another_form_are_refused_and_not_repeated),
      cmocka_unit_test(a_category_is_known_and_stands_in_one_group),
      cmocka_unit_test(only_the_whole_key_once_lets_in),
      cmocka_unit_test(values_come_from_files_and_variables),
      cmocka_unit_test(what_is_open_elsewhere_is_listed),
      cmocka_unit_test(values_change_and_nothing_else),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
