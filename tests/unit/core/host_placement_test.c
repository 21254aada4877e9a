// SPDX-License-Identifier: Apache-2.0
// Host policies: how their settings are read, entered and left.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/host_placement.h"

#include <string.h>

static void a_policy_that_is_not_there_wants_nothing(void **state)
{
  (void)state;
  setting_list settings = {0};
  host_placement p;
  assert_null(setting_list_put(&settings, "other", "cpu-cores", "0-0"));
  assert_null(host_placement_read(&settings, "cpu", &p));
  assert_false(host_placement_is_set(&p));
  assert_null(host_placement_enter(&p, NULL));
  setting_list_fini(&settings);
}

static error *read(const char *name, const char *value, host_placement *p)
{
  setting_list settings = {0};
  assert_null(setting_list_put(&settings, "p", name, value));
  error *e = host_placement_read(&settings, "p", p);
  setting_list_fini(&settings);
  return e;
}

static void settings_are_read_as_triton_reads_them(void **state)
{
  (void)state;
  static const struct {
    const char *value;
    int first, last, count;
  } cores[] = {{"2-4", 2, 4, 3},
               {" 0- 1x,7-7", 0, 7, 3},
               {"+1-3,+2-2", 1, 3, 3},
               {"0,2-3", 0, 3, 4},
               {"1020-2000", 1020, 1023, 4}};
  host_placement p;
  for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++) {
    assert_null(read("cpu-cores", cores[i].value, &p));
    assert_int_equal(CPU_COUNT(&p.cores), cores[i].count);
    assert_true(CPU_ISSET(cores[i].first, &p.cores) && CPU_ISSET(cores[i].last, &p.cores));
    assert_true(p.has_cores && !p.has_node);
  }
  assert_null(read("cpu-cores", "3-1", &p));
  assert_true(p.has_cores && CPU_COUNT(&p.cores) == 0);
  assert_null(read("numa-node", "3x", &p));
  assert_true(p.has_node && p.node == 3 && !p.has_cores);
  assert_null(read("numa-node", "-2", &p));
  assert_int_equal(p.node, -2);
}

#define FORMAT                                                                                     \
  "host policy setting 'cpu-cores' format is '<lower_cpu_core_id>-<upper_cpu_core_id>'. Got "
#define CORES "Parsing 'cpu-cores' value: Can't parse "
#define NODE  "Parsing 'numa-node' value: Can't parse "

static void what_cannot_be_read_is_told_in_tritons_words(void **state)
{
  (void)state;
  static const struct {
    const char *name, *value, *refusal;
  } readings[] = {
      {"cpu-cores", "5", FORMAT "5"},
      {"cpu-cores", "0-1,5", FORMAT "5"},
      {"cpu-cores", "0-1,", FORMAT},
      {"cpu-cores", "", FORMAT},
      {"cpu-cores", "x-1", CORES "'x' to integer"},
      {"cpu-cores", "-1", CORES "'' to integer"},
      {"cpu-cores", "0-y,1-1", CORES "'y' to integer"},
      {"cpu-cores", "0-99999999999", CORES "'99999999999' to integer"},
      {"cpu-cores", "0-2147483648", CORES "'2147483648' to integer"},
      {"numa-node", "x", NODE "'x' to integer"},
      {"numa-node", "", NODE "'' to integer"},
  };
  for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
    host_placement p;
    AUTO_ERROR error *e = read(readings[i].name, readings[i].value, &p);
    assert_non_null(e);
    assert_string_equal(error_message(e), readings[i].refusal);
  }
}

static cpu_set_t own_cores(void)
{
  cpu_set_t cores;
  assert_int_equal(sched_getaffinity(0, sizeof(cores), &cores), 0);
  return cores;
}

static void a_thread_enters_and_leaves(void **state)
{
  (void)state;
  cpu_set_t all = own_cores();
  host_placement p = {.has_cores = true};
  host_place before;
  int one = 0;
  while (!CPU_ISSET(one, &all))
    one++;
  CPU_SET(one, &p.cores);
  CPU_SET(1023, &p.cores); // of which there is none
  assert_null(host_placement_enter(&p, &before));
  cpu_set_t inside = own_cores();
  assert_true(CPU_COUNT(&inside) == 1 && CPU_ISSET(one, &inside));
  assert_int_equal(host_placement_missing_cores(&p), 1);
  host_placement_leave(&p, &before);
  cpu_set_t after = own_cores();
  assert_true(CPU_EQUAL(&all, &after));
}

static void what_the_kernel_refuses_leaves_the_thread_where_it_was(void **state)
{
  (void)state;
  static const char affinity[] = "Unable to set NUMA thread affinity: ",
                    memory[] = "Unable to set NUMA memory policy: ";
  cpu_set_t all = own_cores();
  host_placement nowhere = {.has_cores = true}, no_memory = {.has_cores = true, .has_node = true};
  error *e = host_placement_enter(&nowhere, NULL);
  assert_non_null(e);
  assert_memory_equal(error_message(e), affinity, sizeof(affinity) - 1);
  error_free(e);
  for (int i = 0; CPU_COUNT(&no_memory.cores) == 0; i++)
    if (CPU_ISSET(i, &all))
      CPU_SET(i, &no_memory.cores);
  const int nodes[] = {-1, MAX_HOST_NODES};
  for (size_t i = 0; i < 2; i++) {
    no_memory.node = nodes[i];
    e = host_placement_enter(&no_memory, NULL);
    assert_non_null(e);
    assert_memory_equal(error_message(e), memory, sizeof(memory) - 1);
    error_free(e);
    cpu_set_t after = own_cores();
    assert_true(CPU_EQUAL(&all, &after));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_policy_that_is_not_there_wants_nothing),
      cmocka_unit_test(settings_are_read_as_triton_reads_them),
      cmocka_unit_test(what_cannot_be_read_is_told_in_tritons_words),
      cmocka_unit_test(a_thread_enters_and_leaves),
      cmocka_unit_test(what_the_kernel_refuses_leaves_the_thread_where_it_was),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
