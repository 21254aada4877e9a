// SPDX-License-Identifier: Apache-2.0
// core/server_options: defaults, the rules of its lists, copies that share nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/server_options.h"

#include <string.h>

static void the_defaults_are_tritons(void **state)
{
  (void)state;
  server_options o;
  assert_null(server_options_init(&o));
  assert_string_equal(o.server_id, "triton");
  assert_string_equal(o.model_config_name, "");
  assert_string_equal(o.backend_directory, "/opt/tritonserver/backends");
  assert_int_equal(o.model_control_mode, TRITONSERVER_MODEL_CONTROL_POLL);
  assert_true(o.strict_model_config && o.exit_on_error && o.strict_readiness);
  assert_true(o.metrics && o.cpu_metrics);
  assert_false(o.model_namespacing);
  assert_int_equal(o.model_load_thread_count, 4);
  assert_int_equal(o.model_load_retry_count, 0);
  assert_int_equal(o.exit_timeout_seconds, 30);
  assert_int_equal(o.pinned_memory_pool_bytes, 268435456);
  assert_int_equal(o.metrics_interval_ms, 2000);
  assert_int_equal(o.model_repositories.count + o.startup_models.count, 0);
  server_options_fini(&o);
}

static void the_first_of_added_settings_and_the_last_of_put_settings_is_found(void **state)
{
  (void)state;
  server_options o;
  assert_null(server_options_init(&o));
  assert_null(setting_list_add(&o.backend_settings, "onnxruntime", "k", "1"));
  assert_null(setting_list_add(&o.backend_settings, "onnxruntime", "k", "2"));
  assert_null(setting_list_add(&o.backend_settings, "", "k", "3"));
  assert_int_equal(o.backend_settings.count, 3);
  assert_string_equal(setting_list_get(&o.backend_settings, "onnxruntime", "k"), "1");
  assert_string_equal(setting_list_get(&o.backend_settings, "", "k"), "3");
  assert_null(setting_list_get(&o.backend_settings, "python", "k"));

  assert_null(setting_list_put(&o.host_policies, "p", "numa-node", "0"));
  assert_null(setting_list_put(&o.host_policies, "p", "numa-node", "1"));
  assert_int_equal(o.host_policies.count, 1);
  assert_string_equal(setting_list_get(&o.host_policies, "p", "numa-node"), "1");
  server_options_fini(&o);
}

static void a_copy_lives_on_when_the_original_is_gone(void **state)
{
  (void)state;
  server_options original, copy;
  assert_null(server_options_init(&original));
  assert_true(string_list_add(&original.model_repositories, "/models"));
  assert_true(string_list_add(&original.startup_models, "m"));
  original.exit_timeout_seconds = 5;
  assert_true(string_list_add(&original.link_dirs, "/weights"));
  assert_null(setting_list_add(&original.metrics_settings, "", "counter_latencies", "true"));
  assert_null(server_options_copy(&copy, &original));
  server_options_fini(&original);
  memset(&original, 0xee, sizeof(original));

  assert_string_equal(copy.server_id, "triton");
  assert_string_equal(copy.model_repositories.items[0], "/models");
  assert_string_equal(copy.startup_models.items[0], "m");
  assert_int_equal(copy.exit_timeout_seconds, 5);
  assert_string_equal(copy.link_dirs.items[0], "/weights");
  assert_string_equal(setting_list_get(&copy.metrics_settings, "", "counter_latencies"), "true");
  server_options_fini(&copy);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_defaults_are_tritons),
      cmocka_unit_test(the_first_of_added_settings_and_the_last_of_put_settings_is_found),
      cmocka_unit_test(a_copy_lives_on_when_the_original_is_gone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
