// SPDX-License-Identifier: Apache-2.0
// core/version_rules: the parameters of a configuration, the JSON of a request, and what is wrong
// with them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "core/version_rules.h"

#include <stdio.h>
#include <string.h>

static Inference__ModelConfig *config_with(const char *key, const char *value)
{
  char text[1024];
  Inference__ModelConfig *config;
  snprintf(text, sizeof(text), "parameters { key: \"%s\" value { string_value: \"%s\" } }", key,
           value);
  assert_null(config_read_text(slice_of(text), "config.pbtxt", &config));
  return config;
}

static version_rules rules[RULE_SECTIONS];

static error *read_parameter(const char *key, const char *value)
{
  AUTO_CONFIG Inference__ModelConfig *config = config_with(key, value);
  error *e = version_rules_read_config(config, rules);
  assert_true(version_rules_are_given(config));
  return e;
}

static const char *printed(rule_section section)
{
  static char text[4096];
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  version_rules_print(&rules[section], section, &out);
  snprintf(text, sizeof(text), "%.*s", (int)out.size, out.data);
  return text;
}

static void parameters_are_read(void **state)
{
  (void)state;
  assert_null(
      read_parameter("version_labels", " stable = 3 ,canary=4,v2.1-rc_x=9223372036854775807"));
  assert_string_equal(printed(RULES_LABELS),
                      "{\"stable\":3,\"canary\":4,\"v2.1-rc_x\":9223372036854775807}");
  assert_null(read_parameter("version_split", "3=90,4=10,5=0"));
  assert_string_equal(printed(RULES_SPLIT), "{\"3\":90,\"4\":10,\"5\":0}");
  assert_null(read_parameter("version_shadow", "4=5%,5=0.0001 ,6=100,7=12.5%,8=0"));
  assert_string_equal(printed(RULES_SHADOW), "{\"4\":5,\"5\":0.0001,\"6\":100,\"7\":12.5,\"8\":0}");
  assert_int_equal(rules[RULES_SHADOW].items[1].share, 1);
  assert_int_equal(rules[RULES_SHADOW].items[2].share, VERSION_SHARE_ALL);
  assert_null(read_parameter("version_labels", "  "));
  assert_string_equal(printed(RULES_LABELS), "{}");
}

static void without_parameters_there_is_nothing(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = config_with("other", "x");
  assert_false(version_rules_are_given(config));
  assert_null(version_rules_read_config(config, rules));
}

typedef struct bad_case {
  const char *key, *value, *message;
} bad_case;

static void bad_parameters_are_named(void **state)
{
  (void)state;
  static const char labels[] = ", expected <label>=<version>, as in stable=3,canary=4";
  const bad_case cases[] = {
      {"version_labels", "stable", "'stable=': a version is a number from 1 on"},
      {"version_labels", "stable=0", "'stable=0': a version is a number from 1 on"},
      {"version_labels", "stable=9223372036854775808", "a version is a number from 1 on"},
      {"version_labels", "stable=3x", "'stable=3x': a version is a number from 1 on"},
      {"version_labels", "12=3", "'12=3': a label is a letter or '_'"},
      {"version_labels", "2nd=3", "'2nd=3': a label is a letter or '_'"},
      {"version_labels", "=3", "'=3': a label is"},
      {"version_labels", "a b=3", "'a b=3': a label is"},
      {"version_labels", "a/b=3", "'a/b=3': a label is"},
      {"version_labels", "latest=3", "'latest=3': 'latest' is the highest version"},
      {"version_labels", "a=3,a=4", "'a=4': it is there twice"},
      {"version_labels", "a=3,,b=4", "'=': a label is"},
      {"version_labels", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=3",
       "63 bytes at most"},
      {"version_split", "3=-1", "'3=-1': a weight is a number from 0 to 1000000"},
      {"version_split", "3=1.5", "'3=1.5': a weight is a number from 0 to 1000000"},
      {"version_split", "3=1000001", "a weight is a number from 0 to 1000000"},
      {"version_split", "3=99999999999999999999", "a weight is a number from 0 to 1000000"},
      {"version_split", "3=0,4=0", "split: all weights are 0, expected one that is not"},
      {"version_split", "3=1,3=2", "'3=2': it is there twice"},
      {"version_split", "stable=1", "'stable=1': a version is a number from 1 on"},
      {"version_shadow", "4=101", "'4=101': per cent are from 0 to 100"},
      {"version_shadow", "4=-1", "per cent are from 0 to 100"},
      {"version_shadow", "4=nan", "per cent are from 0 to 100"},
      {"version_shadow", "4=1e400", "per cent are from 0 to 100"},
      {"version_shadow", "4=%", "per cent are from 0 to 100"},
      {"version_shadow", "4=0.00001", "or from 0.0001 on"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    AUTO_ERROR error *e = read_parameter(cases[i].key, cases[i].value);
    assert_non_null(e);
    assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
    if (strstr(error_message(e), cases[i].message) == NULL ||
        strstr(error_message(e), cases[i].key) == NULL)
      fail_msg("'%s' is not about '%s'", error_message(e), cases[i].message);
  }
  AUTO_ERROR error *e = read_parameter("version_labels", "stable=x");
  assert_non_null(strstr(error_message(e), labels));
}

static void there_is_an_end_to_their_number(void **state)
{
  (void)state;
  char text[1024] = "";
  for (int i = 1; i <= VERSION_RULES_MAX; i++)
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d=1,", i);
  text[strlen(text) - 1] = '\0';
  assert_null(read_parameter("version_split", text));
  assert_int_equal(rules[RULES_SPLIT].count, VERSION_RULES_MAX);
  strcat(text, ",99=1");
  AUTO_ERROR error *e = read_parameter("version_split", text);
  assert_non_null(strstr(error_message(e), "more than 32"));
}

// ---- a request's ----

static rules_change change;

static void a_change_is_read(void **state)
{
  (void)state;
  assert_null(rules_change_read(SLICE("{\"labels\":{\"stable\":4,\"old\":null,\"next\":\"5\"},"
                                      "\"split\":null,\"shadow\":{\"4\":2.5}}"),
                                &change));
  assert_true(change.given[RULES_LABELS] && change.given[RULES_SPLIT] &&
              change.given[RULES_SHADOW]);
  assert_true(change.resets[RULES_SPLIT] && !change.resets[RULES_LABELS]);
  assert_int_equal(change.rules[RULES_SHADOW].items[0].share, 25000);
  assert_null(read_parameter("version_labels", "stable=3,canary=4,old=1"));
  version_rules now = rules[RULES_LABELS];
  assert_null(rules_change_labels(&change, &now, &rules[RULES_LABELS]));
  assert_string_equal(printed(RULES_LABELS), "{\"canary\":4,\"stable\":4,\"next\":5}");
  assert_null(rules_change_read(SLICE("{}"), &change));
  assert_false(change.given[RULES_LABELS] || change.given[RULES_SPLIT] ||
               change.given[RULES_SHADOW]);
}

static void bad_changes_are_refused(void **state)
{
  (void)state;
  const char *const texts[] = {
      "[]",
      "3",
      "nul",
      "{\"labels\":[]}",
      "{\"labels\":3}",
      "{\"label\":{}}",
      "{\"split\":{\"3\":null}}",
      "{\"split\":{\"3\":[]}}",
      "{\"split\":{\"3\":true}}",
      "{\"split\":{\"3\":1.5}}",
      "{\"split\":{\"3\":0}}",
      "{\"split\":{\"3\":1,\"3\":2}}",
      "{\"split\":{\"03\":1,\"3\":2}}",
      "{\"labels\":{\"a=1,b\":3}}",
      "{\"labels\":{\"\":3}}",
      "{\"labels\":{\"a\\u0000\":3}}",
      "{\"labels\":{\"latest\":null}}",
      "{\"shadow\":{\"3\":1e300}}",
      "{\"labels\":{}} x",
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    AUTO_ERROR error *e = rules_change_read(slice_of(texts[i]), &change);
    if (e == NULL)
      fail_msg("'%s' is taken", texts[i]);
    assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parameters_are_read),
      cmocka_unit_test(without_parameters_there_is_nothing),
      cmocka_unit_test(bad_parameters_are_named),
      cmocka_unit_test(there_is_an_end_to_their_number),
      cmocka_unit_test(a_change_is_read),
      cmocka_unit_test(bad_changes_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
