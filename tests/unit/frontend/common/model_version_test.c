// SPDX-License-Identifier: Apache-2.0
// frontend/common/infer/model_version: numbers as Triton reads them, labels as the server knows
// them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "frontend/common/infer/model_version.h"
#include "nereid/nereid.h"

#include <string.h>

static int asked; // how often the server was asked for a label

// The server's, here.
TRITONSERVER_Error *NEREID_ServerVersionOfLabel(TRITONSERVER_Server *server, const char *model_name,
                                                const char *label, int64_t *model_version)
{
  (void)server;
  asked++;
  assert_string_equal(model_name, "m");
  *model_version = strcmp(label, "stable") == 0 ? -77 : -78;
  return NULL;
}

static int64_t number_of(const char *text)
{
  int64_t version;
  assert_null(model_version_read(NULL, "m", text, &version));
  return version;
}

static void assert_refused(const char *text, const char *message)
{
  int64_t version;
  AUTO_ERROR error *e = model_version_read(NULL, "m", text, &version);
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_string_equal(error_message(e), message);
}

static void digits_are_numbers(void **state)
{
  (void)state;
  asked = 0;
  assert_int_equal(number_of(""), -1);
  assert_int_equal(number_of("12"), 12);
  assert_int_equal(number_of(" +12.5 of them"), 12); // as Triton's stol
  assert_int_equal(number_of("9223372036854775807"), INT64_MAX);
  assert_int_equal(asked, 0);
}

static void what_begins_as_a_word_is_a_label(void **state)
{
  (void)state;
  asked = 0;
  assert_int_equal(number_of("stable"), -77);
  assert_int_equal(number_of("_x"), -78);
  assert_int_equal(asked, 2);
}

static void what_is_neither_is_refused(void **state)
{
  (void)state;
  asked = 0;
  assert_refused("-x",
                 "failed to get model version from specified version string '-x' (details: stol), "
                 "version should be an integral value > 0");
  assert_refused("99999999999999999999",
                 "failed to get model version from specified version string '99999999999999999999' "
                 "(details: stol), version should be an integral value > 0");
  assert_refused("-1",
                 "invalid model version specified '-1' , version should be an integral value > 0");
  assert_int_equal(asked, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(digits_are_numbers),
      cmocka_unit_test(what_begins_as_a_word_is_a_label),
      cmocka_unit_test(what_is_neither_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
