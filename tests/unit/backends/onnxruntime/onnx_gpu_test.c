// SPDX-License-Identifier: Apache-2.0
// What the onnxruntime backend reads before it uses a GPU: what libraries need, where they are,
// what a configuration says to the providers.
#include "elf_needs.h"
#include "onnx_provider_options.h"
#include "ort_provider.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PROVIDER "libonnxruntime_providers_cuda.so"

// ---- files ----

static char root[64], dir[128]; // of packages, and of ONNX Runtime there

static char *read_all(const char *path, size_t *size)
{
  FILE *file = fopen(path, "rbe");
  assert_non_null(file);
  char *data = malloc(1 << 20);
  *size = fread(data, 1, 1 << 20, file);
  fclose(file);
  return data;
}

static void write_all(const char *path, const char *data, size_t size)
{
  FILE *file = fopen(path, "wbe");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
}

// `change` for `into`, which is as long, wherever it stands.
static void copy_file(const char *from, const char *to, const char *change, const char *into)
{
  char path[256];
  size_t size;
  char *data = read_all(from, &size);
  for (size_t i = 0; change != NULL && i + strlen(change) < size; i++)
    if (memcmp(data + i, change, strlen(change)) == 0)
      memcpy(data + i, into, strlen(into));
  snprintf(path, sizeof path, "%s/%s", root, to);
  write_all(path, data, size);
  free(data);
}

static void copy(const char *from, const char *to, const char *change, const char *into)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", FAKE_ORT, from);
  copy_file(path, to, change, into);
}

static void make_dir(const char *below)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", root, below);
  assert_int_equal(mkdir(path, 0755), 0);
}

static int make_tree(void **state)
{
  (void)state;
  snprintf(root, sizeof root, "/tmp/onnx_gpu_XXXXXX");
  assert_non_null(mkdtemp(root));
  snprintf(dir, sizeof dir, "%s/onnxruntime/capi", root);
  static const char *const dirs[] = {"onnxruntime",      "onnxruntime/capi", "nvidia",
                                     "nvidia/cu13",      "nvidia/cu13/lib",  "nvidia/cublas",
                                     "nvidia/cublas/lib"};
  for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
    make_dir(dirs[i]);
  static const char *const libraries[] = {"libcublasLt.so.13", "libcublas.so.13", "libcurand.so.10",
                                          "libcudart.so.13"};
  for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
    char from[128], to[128];
    snprintf(from, sizeof from, "packages/nvidia/cu13/lib/%s", libraries[i]);
    snprintf(to, sizeof to, "nvidia/cu13/lib/%s", libraries[i]);
    copy(from, to, NULL, NULL);
  }
  copy("named/libcuda.so.1", "nvidia/cu13/lib/libcuda.so.1", NULL, NULL);
  copy("packages/onnxruntime/capi/" PROVIDER, "onnxruntime/capi/" PROVIDER, NULL, NULL);
  return 0;
}

static int remove_tree(void **state)
{
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", root);
  return system(command);
}

// ---- what a library needs ----

static void test_the_names_stand_in_their_order(void **state)
{
  (void)state;
  string_list names = {0};
  const char *why = NULL;
  assert_true(elf_needs(FAKE_ORT "/packages/onnxruntime/capi/" PROVIDER, &names, &why));
  static const char *const wanted[] = {"libcublas.so.13", "libcurand.so.10", "libcudart.so.13",
                                       "libcuda.so.1", "libcublasLt.so.13"}; // as it was linked
  assert_true(names.count >= 5);
  for (size_t i = 0; i < 5; i++)
    assert_string_equal(names.items[i], wanted[i]);
  string_list_fini(&names);
}

static void test_other_files_are_told_apart(void **state)
{
  (void)state;
  static const struct {
    const char *path, *why;
  } rows[] = {{"/nowhere", "cannot be read"},
              {"/dev/null", "is no 64-bit shared object"},
              {"/etc/passwd", "is no 64-bit shared object"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    string_list names = {0};
    const char *why = NULL;
    assert_false(elf_needs(rows[i].path, &names, &why));
    assert_string_equal(why, rows[i].why);
    assert_int_equal(names.count, 0);
    string_list_fini(&names);
  }
}

// Cut off anywhere, and with any of its bytes changed, it is read to an end within bounds.
static void test_a_broken_file_is_read_safely(void **state)
{
  (void)state;
  char path[256];
  size_t size;
  char *data = read_all(FAKE_ORT "/packages/onnxruntime/capi/" PROVIDER, &size);
  snprintf(path, sizeof path, "%s/broken", root);
  size_t refused = 0;
  for (size_t i = 0; i < 1024; i++) {
    const size_t at = i < 512 ? i : i * 37 % size; // each byte of the headers, then here and there
    for (int cut = 0; cut < 2; cut++) {
      string_list names = {0};
      const char *why = NULL;
      const char before = data[at];
      data[at] = cut ? before : (char)(before ^ 0xff);
      write_all(path, data, cut ? at : size);
      data[at] = before;
      const bool good = elf_needs(path, &names, &why);
      assert_true(good || why != NULL);
      refused += !good;
      string_list_fini(&names);
    }
  }
  assert_true(refused > 512);
  free(data);
}

// ---- where the libraries are ----

static char *problem(ort_provider_purpose purpose)
{
  TRITONSERVER_Error *error = ort_provider_libraries(dir, PROVIDER, false, purpose);
  char *text = error == NULL ? NULL : strdup(TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return text;
}

static void drop(const char *path)
{
  char full[256];
  snprintf(full, sizeof full, "%s/%s", root, path);
  assert_int_equal(unlink(full), 0);
}

static void test_all_are_found_beside_the_package(void **state)
{
  (void)state;
  assert_true(ort_provider_exists(dir, PROVIDER));
  assert_false(ort_provider_exists(dir, "libonnxruntime_providers_rocm.so"));
  assert_null(problem(ORT_PROVIDER_FIND));
}

static void test_what_is_missing_is_named_once(void **state)
{
  (void)state;
  char wanted[1024];
  drop("nvidia/cu13/lib/libcublasLt.so.13"); // needed by two
  drop("nvidia/cu13/lib/libcudart.so.13");
  char *text = problem(ORT_PROVIDER_FIND);
  assert_non_null(text);
  snprintf(wanted, sizeof wanted, "%s needs libcublasLt.so.13, libcudart.so.13: not found in ",
           PROVIDER);
  assert_int_equal(strncmp(text, wanted, strlen(wanted)), 0);
  assert_non_null(strstr(text, "/nvidia/cu13/lib'"));
  assert_non_null(strstr(text, " nor in the loader's path; pip install nvidia-cublas "
                               "nvidia-cuda-runtime"));
  free(text);
}

static void test_cuda_12_has_packages_of_its_own(void **state)
{
  (void)state;
  copy("packages/onnxruntime/capi/" PROVIDER, "onnxruntime/capi/" PROVIDER, "cudart.so.13",
       "cudart.so.12");
  copy("packages/nvidia/cu13/lib/libcublasLt.so.13", "nvidia/cublas/lib/libcublasLt.so.13", NULL,
       NULL);
  drop("nvidia/cu13/lib/libcublasLt.so.13"); // it is in the other directory
  char *text = problem(ORT_PROVIDER_FIND);
  assert_non_null(text);
  assert_non_null(strstr(text, PROVIDER " needs libcudart.so.12: not found in "));
  assert_non_null(strstr(text, "; pip install nvidia-cuda-runtime-cu12"));
  free(text);
}

static void test_the_version_of_cuda_is_known_without_its_runtime(void **state)
{
  (void)state;
  char path[256];
  copy("packages/onnxruntime/capi/" PROVIDER, "onnxruntime/capi/" PROVIDER, "libcudart.so.13",
       "libcurand.so.10");
  snprintf(path, sizeof path, "%s/" PROVIDER, dir);
  copy_file(path, "onnxruntime/capi/" PROVIDER, "so.13", "so.12");
  char *text = problem(ORT_PROVIDER_FIND);
  assert_non_null(text);
  assert_non_null(
      strstr(text, PROVIDER " needs libcublas.so.12, libcublasLt.so.12: not found in "));
  assert_non_null(strstr(text, "; pip install nvidia-cublas-cu12"));
  free(text);
}

static void test_what_strangers_may_write_is_left_alone(void **state)
{
  (void)state;
  char path[256];
  snprintf(path, sizeof path, "%s/nvidia/cu13/lib/libcurand.so.10", root);
  assert_int_equal(chmod(path, 0666), 0);
  char *text = problem(ORT_PROVIDER_FIND);
  assert_non_null(text);
  assert_non_null(strstr(text, "needs libcurand.so.10: not found in "));
  assert_non_null(strstr(text, "libcurand.so.10' is left alone, since '"));
  assert_non_null(strstr(text, "' may be written by anybody; pip install nvidia-curand"));
  free(text);
}

static void test_a_provider_that_strangers_may_write_is_left_alone(void **state)
{
  (void)state;
  static const char *const names[] = {PROVIDER, "libonnxruntime_providers_shared.so"};
  copy("packages/onnxruntime/capi/" PROVIDER, "onnxruntime/capi/libonnxruntime_providers_shared.so",
       NULL, NULL);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char path[512], wanted[512];
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    snprintf(wanted, sizeof wanted, "%s' is left alone, since '", names[i]);
    assert_int_equal(chmod(path, 0666), 0);
    char *text = problem(ORT_PROVIDER_FIND);
    assert_non_null(text);
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "' may be written by anybody"));
    free(text);
    assert_int_equal(chmod(path, 0644), 0);
  }
  assert_null(problem(ORT_PROVIDER_FIND));
}

// The last one: what is opened stays.
static void test_they_are_opened_before_the_provider(void **state)
{
  (void)state;
  assert_null(problem(ORT_PROVIDER_OPEN));
  drop("nvidia/cu13/lib/libcublas.so.13"); // it is known by its name
  assert_null(problem(ORT_PROVIDER_OPEN));
}

// ---- options ----

static char *joined(const onnx_provider_options *options)
{
  static char text[2048];
  size_t length = 0;
  assert_int_equal(options->keys.count, options->values.count);
  text[0] = '\0';
  for (size_t i = 0; i < options->keys.count; i++)
    length += (size_t)snprintf(text + length, sizeof text - length, "%s%s=%s", i > 0 ? " " : "",
                               options->keys.items[i], options->values.items[i]);
  return text;
}

static json_t *config_of(const char *accelerator, const char *parameters, const char *older)
{
  char text[2048];
  snprintf(text, sizeof text,
           "{\"optimization\": {\"execution_accelerators\": {\"gpu_execution_accelerator\": "
           "[{\"name\": \"%s\", \"parameters\": {%s}}]}}, \"parameters\": {%s}}",
           accelerator, parameters, older);
  json_t *config = json_loads(text, 0, NULL);
  assert_non_null(config);
  return config;
}

static void check_options(TRITONSERVER_Error *error, onnx_provider_options *options,
                          const char *wanted)
{
  if (error != NULL)
    assert_string_equal(TRITONSERVER_ErrorMessage(error), wanted);
  else
    assert_string_equal(joined(options), wanted);
  TRITONSERVER_ErrorDelete(error);
  onnx_provider_options_fini(options);
}

static void check_cuda(const char *parameters, const char *older, const char *wanted)
{
  onnx_provider_options options = {0};
  json_t *config = config_of("cuda", parameters, older);
  check_options(onnx_cuda_options(config, 3, &options), &options, wanted);
  json_decref(config);
}

#define OLDER(key, value) "\"" key "\": {\"string_value\": \"" value "\"}"
#define PLACE             "device_id=3 has_user_compute_stream=1"

static void test_cuda_gets_what_is_said_and_nothing_else(void **state)
{
  (void)state;
  check_cuda("", "", PLACE);
  check_cuda("\"use_tf32\": \"0\", \"anything\": \"as it is\"", "",
             "use_tf32=0 anything=as it is " PLACE);
  check_cuda("\"do_copy_in_default_stream\": \"Off\"", "", "do_copy_in_default_stream=0 " PLACE);
  check_cuda("\"device_id\": \"7\", \"has_user_compute_stream\": \"0\"", "", PLACE);
  check_cuda("\"gpu_mem_limit\": \"5\", \"cudnn_conv_algo_search\": \"DEFAULT\"",
             OLDER("gpu_mem_limit", "9"), "gpu_mem_limit=9 cudnn_conv_algo_search=DEFAULT " PLACE);
  check_cuda("", OLDER("cudnn_conv_algo_search", "1") ", " OLDER("arena_extend_strategy", "0"),
             "cudnn_conv_algo_search=HEURISTIC arena_extend_strategy=kNextPowerOfTwo " PLACE);
  check_cuda("", OLDER("cudnn_conv_algo_search", "-1"),
             "unsupported cudnn_conv_algo_search value '-1' is requested");
  check_cuda("", OLDER("arena_extend_strategy", "one"),
             "failed to convert 'one' to integral number");
  check_cuda("\"gpu_external_alloc\": \"4096\"", "",
             "parameter 'gpu_external_alloc' of the Execution Accelerator 'cuda' is an address in "
             "the server: it is not taken from a configuration");
  check_cuda("\"use_ep_level_unified_stream\": \"2\"", "", "failed to convert '2' to boolean");
}

static void check_tensorrt(const char *parameters, const char *wanted)
{
  onnx_provider_options options = {0};
  json_t *config = config_of("tensorrt", parameters, "");
  check_options(
      onnx_tensorrt_options(json_array_get(onnx_gpu_accelerators(config), 0), 3, &options),
      &options, wanted);
  json_decref(config);
}

static void test_tensorrt_knows_its_parameters(void **state)
{
  (void)state;
  check_tensorrt("", PLACE);
  check_tensorrt("\"precision_mode\": \"FP32\"", PLACE);
  check_tensorrt("\"precision_mode\": \"BF16\"", "trt_bf16_enable=1 " PLACE);
  check_tensorrt("\"precision_mode\": \"INT8\", \"int8_calibration_table_name\": \"t\"",
                 "trt_int8_enable=1 trt_int8_calibration_table_name=t " PLACE);
  check_tensorrt("\"precision_mode\": \"fp16\"", "unsupported precision mode 'fp16' is requested");
  check_tensorrt("\"max_workspace_size_bytes\": \"1g\"", "trt_max_workspace_size=1g " PLACE);
  check_tensorrt("\"max_workspace_size_bytes\": \"g\"",
                 "failed to convert 'g' to unsigned long long integral number");
  check_tensorrt("\"trt_engine_cache_path\": \"\"", PLACE); // what is empty is not said
  check_tensorrt("\"user_compute_stream\": \"1\"",
                 "unknown parameter 'user_compute_stream' is provided for TensorRT Execution "
                 "Accelerator");
}

static void test_graphs_are_wanted_by_either_provider(void **state)
{
  (void)state;
  static const struct {
    const char *name, *parameters;
    bool wanted;
  } rows[] = {{"cuda", "", false},
              {"cuda", "\"enable_cuda_graph\": \"1\"", true},
              {"cuda", "\"enable_cuda_graph\": \"false\"", false},
              {"cuda", "\"enable_cuda_graph\": \"x\"", false},
              {"tensorrt", "\"trt_cuda_graph_enable\": \"True\"", true}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    json_t *config = config_of(rows[i].name, rows[i].parameters, "");
    assert_int_equal(onnx_wants_graphs(config), rows[i].wanted);
    json_decref(config);
  }
}

static void test_arenas_are_those_of_the_session(void **state)
{
  (void)state;
  static const struct {
    const char *list;
    int device;
    const char *left;
  } rows[] = {{"", -1, ""},
              {"cpu:0", -1, "cpu:0"},
              {"cpu:0;gpu:0", -1, "cpu:0"},
              {"gpu:0;cpu:0;gpu:1", 1, "cpu:0;gpu:1"},
              {"gpu:0", 1, ""},
              {";;gpu:12;", 12, "gpu:12"},
              {"what;gpu", 0, "what;gpu"}}; // ONNX Runtime says it
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char *left = onnx_arenas_of(rows[i].list, rows[i].device);
    assert_string_equal(left, rows[i].left);
    free(left);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_names_stand_in_their_order),
      cmocka_unit_test(test_other_files_are_told_apart),
      cmocka_unit_test_setup_teardown(test_a_broken_file_is_read_safely, make_tree, remove_tree),
      cmocka_unit_test_setup_teardown(test_all_are_found_beside_the_package, make_tree,
                                      remove_tree),
      cmocka_unit_test_setup_teardown(test_what_is_missing_is_named_once, make_tree, remove_tree),
      cmocka_unit_test_setup_teardown(test_cuda_12_has_packages_of_its_own, make_tree, remove_tree),
      cmocka_unit_test_setup_teardown(test_the_version_of_cuda_is_known_without_its_runtime,
                                      make_tree, remove_tree),
      cmocka_unit_test_setup_teardown(test_a_provider_that_strangers_may_write_is_left_alone,
                                      make_tree, remove_tree),
      cmocka_unit_test_setup_teardown(test_what_strangers_may_write_is_left_alone, make_tree,
                                      remove_tree),
      cmocka_unit_test(test_cuda_gets_what_is_said_and_nothing_else),
      cmocka_unit_test(test_tensorrt_knows_its_parameters),
      cmocka_unit_test(test_graphs_are_wanted_by_either_provider),
      cmocka_unit_test(test_arenas_are_those_of_the_session),
      cmocka_unit_test_setup_teardown(test_they_are_opened_before_the_provider, make_tree,
                                      remove_tree),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
