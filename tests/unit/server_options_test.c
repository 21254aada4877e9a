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
  assert_string_equal(o.repository_agent_directory, "/opt/tritonserver/repoagents");
  assert_string_equal(o.cache_directory, "/opt/tritonserver/caches");
  assert_int_equal(o.model_control_mode, TRITONSERVER_MODEL_CONTROL_POLL);
  assert_true(o.strict_model_config && o.exit_on_error && o.strict_readiness);
  assert_true(o.metrics && o.gpu_metrics && o.cpu_metrics);
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

static void of_several_counts_of_a_resource_the_smallest_holds(void **state)
{
  (void)state;
  server_options o;
  assert_null(server_options_init(&o));
  rate_limiter_resource_list *list = &o.rate_limiter_resources;
  assert_null(rate_limiter_resource_list_add(list, "r", 4, -1));
  assert_null(rate_limiter_resource_list_add(list, "r", 2, -1));
  assert_null(rate_limiter_resource_list_add(list, "r", 3, -1));
  assert_null(rate_limiter_resource_list_add(list, "r", 9, 0));
  assert_int_equal(list->count, 2);
  assert_int_equal(list->items[0].count, 2);
  assert_int_equal(list->items[1].count, 9);
  server_options_fini(&o);
}

static void a_device_has_one_size_the_last(void **state)
{
  (void)state;
  server_options o;
  assert_null(server_options_init(&o));
  for (int device = 0; device < 10; device++)
    assert_null(device_size_list_put(&o.cuda_memory_pools, device, 1));
  assert_null(device_size_list_put(&o.cuda_memory_pools, 7, 2));
  assert_int_equal(o.cuda_memory_pools.count, 10);
  assert_int_equal(o.cuda_memory_pools.items[7].byte_size, 2);
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
  assert_null(setting_list_put(&original.cache_configs, "local", "", "{\"size\": 1}"));
  assert_null(setting_list_add(&original.metrics_settings, "", "counter_latencies", "true"));
  assert_null(rate_limiter_resource_list_add(&original.rate_limiter_resources, "r", 1, 2));
  assert_null(device_size_list_put(&original.cuda_virtual_address_sizes, 0, 3));
  assert_null(server_options_copy(&copy, &original));
  server_options_fini(&original);
  memset(&original, 0xee, sizeof(original));

  assert_string_equal(copy.server_id, "triton");
  assert_string_equal(copy.model_repositories.items[0], "/models");
  assert_string_equal(copy.startup_models.items[0], "m");
  assert_int_equal(copy.exit_timeout_seconds, 5);
  assert_string_equal(setting_list_get(&copy.cache_configs, "local", ""), "{\"size\": 1}");
  assert_string_equal(setting_list_get(&copy.metrics_settings, "", "counter_latencies"), "true");
  assert_string_equal(copy.rate_limiter_resources.items[0].name, "r");
  assert_int_equal(copy.cuda_virtual_address_sizes.items[0].byte_size, 3);
  server_options_fini(&copy);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_defaults_are_tritons),
      cmocka_unit_test(the_first_of_added_settings_and_the_last_of_put_settings_is_found),
      cmocka_unit_test(of_several_counts_of_a_resource_the_smallest_holds),
      cmocka_unit_test(a_device_has_one_size_the_last),
      cmocka_unit_test(a_copy_lives_on_when_the_original_is_gone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
