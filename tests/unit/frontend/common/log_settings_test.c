// SPDX-License-Identifier: Apache-2.0
// The log's settings as both protocols change them, and the access log's lines.
#include "frontend/common/observe/access_log.h"
#include "frontend/common/observe/log_settings.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static NEREID_LogSettings now(void)
{
  NEREID_LogSettings settings;
  NEREID_LogGetSettings(&settings);
  return settings;
}

static void only_what_is_named_changes(void **state)
{
  (void)state;
  const log_setting some[] = {
      {.name = "log_warning", .kind = LOG_SETTING_BOOL, .value.boolean = false},
      {.name = "log_verbose_level", .kind = LOG_SETTING_INTEGER, .value.integer = 3},
      {.name = "log_format", .kind = LOG_SETTING_TEXT, .value.text = "json"},
      {.name = "no_such_setting", .kind = LOG_SETTING_OTHER},
  };
  assert_null(log_settings_change(some, 4));
  assert_true(now().info && !now().warning && now().error);
  assert_int_equal(now().verbose_level, 3);
  assert_int_equal(now().format, NEREID_LOG_JSON);
  AUTO_BUFFER buffer json = BUFFER_EMPTY;
  log_settings_print(&json, false);
  static const char expected[] =
      "{\"log_file\":\"\",\"log_info\":true,\"log_warning\":false,\"log_error\":true,"
      "\"log_verbose_level\":3,\"log_format\":\"json\"}";
  assert_int_equal(json.size, sizeof(expected) - 1);
  assert_memory_equal(json.data, expected, json.size);
  const log_setting back[] = {
      {.name = "log_warning", .kind = LOG_SETTING_BOOL, .value.boolean = true},
      {.name = "log_verbose_level", .kind = LOG_SETTING_INTEGER, .value.integer = 0},
      {.name = "log_format", .kind = LOG_SETTING_TEXT, .value.text = "default"},
  };
  assert_null(log_settings_change(back, 3));
  assert_true(now().warning && now().verbose_level == 0 &&
              now().format == TRITONSERVER_LOG_DEFAULT);
}

static void one_bad_setting_changes_nothing(void **state)
{
  (void)state;
  static const struct {
    log_setting setting;
    error_code code;
  } bad[] = {
      {{"log_file", LOG_SETTING_TEXT, {.text = "/tmp/x"}}, ERROR_UNSUPPORTED},
      {{"log_file", LOG_SETTING_OTHER, {0}}, ERROR_UNSUPPORTED},
      {{"log_error", LOG_SETTING_INTEGER, {.integer = 1}}, ERROR_INVALID_ARG},
      {{"log_verbose_level", LOG_SETTING_INTEGER, {.integer = -1}}, ERROR_INVALID_ARG},
      {{"log_verbose_level", LOG_SETTING_INTEGER, {.integer = INT64_C(1) << 31}},
       ERROR_INVALID_ARG},
      {{"log_verbose_level", LOG_SETTING_BOOL, {.boolean = true}}, ERROR_INVALID_ARG},
      {{"log_format", LOG_SETTING_TEXT, {.text = "iso8601"}}, ERROR_INVALID_ARG},
      {{"log_format", LOG_SETTING_OTHER, {0}}, ERROR_INVALID_ARG},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    const log_setting both[] = {
        {.name = "log_info", .kind = LOG_SETTING_BOOL, .value.boolean = false}, bad[i].setting};
    error *e = log_settings_change(both, 2);
    assert_int_equal(error_get_code(e), bad[i].code);
    error_free(e);
    assert_true(now().info);
  }
}

static void all_bad_settings_are_told(void **state)
{
  (void)state;
  const log_setting bad[] = {
      {.name = "log_format", .kind = LOG_SETTING_TEXT, .value.text = "x"},
      {.name = "unknown", .kind = LOG_SETTING_OTHER},
      {.name = "log_info", .kind = LOG_SETTING_INTEGER, .value.integer = 1},
      {.name = "log_error", .kind = LOG_SETTING_BOOL, .value.boolean = false},
  };
  error *e = log_settings_change(bad, 4);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_string_equal(error_message(e), "attempt to access JSON non-boolean as boolean: expected a "
                                        "boolean for 'log_info'; invalid argument for "
                                        "--log_format, got: x");
  error_free(e);
  assert_true(now().error);
}

static void a_record_is_one_line_whatever_is_in_it(void **state)
{
  (void)state;
  for (int byte = 1; byte < 256; byte++) {
    char text[] = {'x', (char)byte, ' ', '\0'};
    const access_record record = {.protocol = "http",
                                  .peer = text,
                                  .method = text,
                                  .route = text,
                                  .model = text,
                                  .request_id = text};
    AUTO_BUFFER buffer json = BUFFER_EMPTY;
    AUTO_BUFFER buffer pairs = BUFFER_EMPTY;
    access_record_print(&record, 0, true, &json);
    access_record_print(&record, 0, false, &pairs);
    json_t *object = json_loadb(json.data, json.size, 0, NULL);
    assert_int_equal(json_object_size(object), 15);
    json_decref(object);
    assert_ptr_equal(memchr(json.data, '\n', json.size), json.data + json.size - 1);
    assert_ptr_equal(memchr(pairs.data, '\n', pairs.size), pairs.data + pairs.size - 1);
  }
}

static void a_record_reads_as_the_documentation_says(void **state)
{
  (void)state;
  const access_record record = {.protocol = "grpc",
                                .peer = "[::1]:5",
                                .route = "ModelInfer",
                                .status = 3,
                                .model = "m",
                                .version = 2,
                                .request_id = "i",
                                .batch_size = 4,
                                .queue_ns = 5999,
                                .compute_ns = 6000,
                                .total_ns = 20000,
                                .bytes_in = 8,
                                .bytes_out = 9};
  static const char expected[] =
      "ts=2001-09-09T01:46:40.123456Z protocol=\"grpc\" peer=\"[::1]:5\" method=\"\" "
      "route=\"ModelInfer\" status=3 model=\"m\" version=2 request_id=\"i\" batch=4 queue_us=5 "
      "compute_us=6 total_us=20 bytes_in=8 bytes_out=9\n";
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  access_record_print(&record, UINT64_C(1000000000123456789), false, &line);
  assert_int_equal(line.size, sizeof(expected) - 1);
  assert_memory_equal(line.data, expected, line.size);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(only_what_is_named_changes),
      cmocka_unit_test(one_bad_setting_changes_nothing),
      cmocka_unit_test(all_bad_settings_are_told),
      cmocka_unit_test(a_record_is_one_line_whatever_is_in_it),
      cmocka_unit_test(a_record_reads_as_the_documentation_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
