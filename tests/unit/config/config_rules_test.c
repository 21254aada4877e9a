// SPDX-License-Identifier: Apache-2.0
// What the server adds to a configuration, and what it refuses.
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/files.h"
#include "config/backend_traits.h"
#include "config/config.h"

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

static const config_gpus no_gpus = {NULL, 0, MIN_COMPUTE_CAPABILITY, false};

static Inference__ModelConfig *read_text(const char *text)
{
  Inference__ModelConfig *config = NULL;
  error *e = config_read_text(slice_of(text), "config.pbtxt", &config);
  if (e != NULL)
    fail_msg("%s: %s", text, error_message(e));
  return config;
}

// ---- finding the backend ----

// A model's directory with the paths in `entries` (those that end in / are directories), separated
// by spaces.
typedef struct model_dir {
  char path[64];
  file_root root;
} model_dir;

static model_dir make_dir(const char *entries)
{
  model_dir dir = {.path = "/tmp/nereid_config_XXXXXX"};
  assert_non_null(mkdtemp(dir.path));
  char *list AUTO_FREE = strdup(entries);
  char *rest = NULL;
  for (char *entry = strtok_r(list, " ", &rest); entry != NULL;
       entry = strtok_r(NULL, " ", &rest)) {
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir.path, entry);
    for (char *slash = strchr(path + strlen(dir.path) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
      *slash = '\0';
      mkdir(path, 0700);
      *slash = '/';
    }
    if (path[strlen(path) - 1] != '/') {
      int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
      assert_true(file >= 0);
      close(file);
    }
  }
  assert_null(files_open_root(dir.path, &file_policy_anywhere, &dir.root));
  return dir;
}

static void remove_dir(int parent, const char *name)
{
  file_root dir = {openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), &file_policy_anywhere};
  string_list names = {0};
  error_free(files_list(&dir, ".", &names));
  for (size_t i = 0; i < names.count; i++) {
    if (unlinkat(dir.descriptor, names.items[i], 0) != 0)
      remove_dir(dir.descriptor, names.items[i]);
  }
  string_list_fini(&names);
  file_root_close(&dir);
  unlinkat(parent, name, AT_REMOVEDIR);
}

static void free_dir(model_dir *dir)
{
  file_root_close(&dir->root);
  remove_dir(AT_FDCWD, dir->path);
}

static void backend_platform_and_file_are_found_from_each_other_and_from_the_files(void **state)
{
  (void)state;
  const struct {
    const char *text, *files, *model, *backend, *platform, *file;
  } cases[] = {
      {"", "1/model.onnx", "m", "onnxruntime", "onnxruntime_onnx", "model.onnx"},
      {"", "1/model.onnx/", "m", "onnxruntime", "onnxruntime_onnx", "model.onnx"},
      {"", "1/ 3/model.onnx", "m", "onnxruntime", "onnxruntime_onnx", "model.onnx"},
      {"", "1/model.py", "m", "python", "", "model.py"},
      {"", "1/model.xml 1/model.bin", "m", "openvino", "", "model.xml"},
      {"", "1/model.tflite", "m", "openvino", "", "model.tflite"},
      {"", "1/model.pdmodel 1/model.pdiparams", "m", "openvino", "", "model.pdmodel"},
      {"backend: 'openvino'", "1/model.tflite", "m", "openvino", "", "model.tflite"},
      {"backend: 'openvino'", "1/model.tflite 1/model.xml", "m", "openvino", "", "model.xml"},
      {"backend: 'openvino'", "1/net.onnx", "m", "openvino", "", "model.xml"},
      {"backend: 'openvino' default_model_filename: 'net.onnx'", "1/net.onnx", "m", "openvino", "",
       "net.onnx"},
      {"", "1/model.pt", "m", "pytorch", "pytorch_libtorch", "model.pt"},
      {"", "1/model.pt2", "m", "pytorch", "torch_aoti", "model.pt2"},
      {"", "1/model.pt 1/model.pt2", "m", "pytorch", "pytorch_libtorch", "model.pt"},
      {"", "1/model.plan", "m", "tensorrt", "tensorrt_plan", "model.plan"},
      {"", "1/model.graphdef", "m", "tensorflow", "tensorflow_graphdef", "model.graphdef"},
      {"", "1/model.savedmodel/", "m", "tensorflow", "tensorflow_savedmodel", "model.savedmodel"},
      {"backend: 'tensorflow'", "1/model.savedmodel/", "m", "tensorflow", "tensorflow_savedmodel",
       "model.savedmodel"},
      {"backend: 'tensorflow'", "1/", "m", "tensorflow", "", ""},
      {"backend: 'onnxruntime'", "", "m", "onnxruntime", "onnxruntime_onnx", "model.onnx"},
      {"backend: 'onnxruntime' default_model_filename: 'x.onnx'", "", "m", "onnxruntime",
       "onnxruntime_onnx", "x.onnx"},
      {"platform: 'onnxruntime_onnx'", "", "m", "onnxruntime", "onnxruntime_onnx", "model.onnx"},
      {"default_model_filename: 'model.onnx'", "", "m", "onnxruntime", "onnxruntime_onnx",
       "model.onnx"},
      {"default_model_filename: 'x.onnx'", "1/model.onnx", "m", "", "", "x.onnx"},
      {"platform: 'x' default_model_filename: 'model.onnx'", "", "m", "onnxruntime", "x",
       "model.onnx"},
      {"platform: 'x' default_model_filename: 'model.py'", "", "m", "python", "x", "model.py"},
      {"platform: 'x' default_model_filename: 'model.graphdef'", "", "m", "", "x",
       "model.graphdef"},
      {"platform: 'torch_aoti'", "", "m", "pytorch", "torch_aoti", "model.pt2"},
      {"backend: 'pytorch'", "", "m", "pytorch", "pytorch_libtorch", "model.pt"},
      {"backend: 'identity'", "1/model.onnx", "m", "identity", "", ""},
      {"platform: 'ensemble'", "1/", "m", "", "ensemble", ""},
      {"backend: 'onnxruntime' platform: 'x'", "1/model.onnx", "m", "onnxruntime", "x", ""},
      {"", "", "m.identity", "identity", "", "model.identity"},
      {"", "1/model.onnx", "m.identity", "onnxruntime", "onnxruntime_onnx", "model.onnx"},
      {"", "", "a.b.c", "b.c", "", "model.b.c"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    AUTO_CONFIG Inference__ModelConfig *config = read_text(cases[i].text);
    model_dir dir = make_dir(cases[i].files);
    AUTO_ERROR error *e = config_infer_backend(config, cases[i].model, &dir.root);
    free_dir(&dir);
    assert_null(e);
    assert_string_equal(config->backend, cases[i].backend);
    assert_string_equal(config->platform, cases[i].platform);
    assert_string_equal(config->default_model_filename, cases[i].file);
  }
}

// By typing errors, and by the names of what the backends run.
static void the_backend_that_was_meant_is_found(void **state)
{
  (void)state;
  const struct {
    const char *written, *meant;
  } cases[] = {
      {"py", "python"},
      {"pyton", "python"},
      {"keras", "tensorflow"},
      {"Keras", "tensorflow"},
      {"tf", "tensorflow"},
      {"torch", "pytorch"},
      {"torchscript", "pytorch"},
      {"torch_aoti", "pytorch"},
      {"tflite", "openvino"},
      {"paddle", "openvino"},
      {"onnx", "onnxruntime"},
      {"trt", "tensorrt"},
      {"xgb", "fil"},
      {"scikit-learn", "fil"},
      {"python", NULL},
      {"dali", NULL},
      {"vllm", NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const char *found = backend_traits_nearest(cases[i].written);
    if (cases[i].meant == NULL)
      assert_null(found);
    else
      assert_string_equal(found, cases[i].meant);
  }
}

static void a_model_that_nothing_tells_about_has_no_backend(void **state)
{
  (void)state;
  const char *dirs[] = {"", "1/", "1/model.graphdef/", "configs/model.onnx", "model.onnx"};
  for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
    AUTO_CONFIG Inference__ModelConfig *config = config_new();
    model_dir dir = make_dir(dirs[i]);
    AUTO_ERROR error *e = config_set_defaults(config, "m", &dir.root);
    free_dir(&dir);
    assert_non_null(e);
    assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
    assert_string_equal(error_message(e),
                        "Invalid model name: Could not determine backend for model 'm' with no "
                        "backend in model configuration. Expected model name of the form "
                        "'model.<backend_name>'.");
  }
}

// ---- defaults ----

static void normalising_twice_changes_nothing_more(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config =
      read_text("name: 'm' max_batch_size: 8 dynamic_batching {}");
  assert_null(config_normalize(config));
  AUTO_CONFIG Inference__ModelConfig *once = NULL;
  assert_null(config_copy(config, &once));
  assert_null(config_normalize(config));
  assert_true(config_equal_but_policy(config, once));
  assert_int_equal(config->dynamic_batching->n_preferred_batch_size, 1);
  assert_int_equal(config->dynamic_batching->preferred_batch_size[0], 8);
  assert_int_equal(config->version_policy->latest->num_versions, 1);
  assert_true(config->optimization->input_pinned_memory->enable);
}

static void without_batching_there_is_no_preferred_size(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = read_text("dynamic_batching {}");
  assert_null(config_normalize(config));
  assert_int_equal(config->dynamic_batching->n_preferred_batch_size, 0);
}

static void what_is_configured_stays(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = read_text(
      "max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 2, 4 ] } version_policy { all "
      "{} } optimization { input_pinned_memory { enable: false } }");
  assert_null(config_normalize(config));
  assert_int_equal(config->dynamic_batching->n_preferred_batch_size, 2);
  assert_int_equal(config->version_policy->policy_choice_case,
                   INFERENCE__MODEL_VERSION_POLICY__POLICY_CHOICE_ALL);
  assert_false(config->optimization->input_pinned_memory->enable);
  assert_true(config->optimization->output_pinned_memory->enable);
}

static void instance_groups_get_names_kinds_and_counts(void **state)
{
  (void)state;
  const struct {
    const char *text, *names, *kinds;
    size_t instances;
  } cases[] = {
      {"name: 'm' backend: 'x'", "m", "KIND_CPU", 1},
      {"name: 'm' backend: 'onnxruntime'", "m", "KIND_CPU", 2},
      {"name: 'm' backend: 'tensorflow' instance_group {}", "m_0", "KIND_CPU", 2},
      {"name: 'm' backend: 'onnxruntime' instance_group { kind: KIND_MODEL }", "m_0", "KIND_MODEL",
       1},
      {"name: 'm' backend: 'onnxruntime' instance_group { count: 1 }", "m_0", "KIND_CPU", 1},
      {"name: 'm' backend: 'x' instance_group [ { count: 3 }, { name: 'g' }, { kind: KIND_CPU } ]",
       "m_0 g m_2", "KIND_CPU KIND_CPU KIND_CPU", 5},
      {"name: 'm' instance_group { kind: KIND_AUTO gpus: [ 0 ] }", "m_0", "KIND_CPU", 1},
      {"name: 'm' instance_group { kind: KIND_GPU }", "m_0", "KIND_GPU", 0},
      {"name: 'm' platform: 'ensemble' ensemble_scheduling {}", "", "", 0},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    AUTO_CONFIG Inference__ModelConfig *config = read_text(cases[i].text);
    assert_null(config_normalize_instance_groups(config, NULL, 0, no_gpus));
    AUTO_BUFFER buffer names = BUFFER_EMPTY;
    AUTO_BUFFER buffer kinds = BUFFER_EMPTY;
    for (size_t j = 0; j < config->n_instance_group; j++) {
      buffer_append_format(&names, "%s%s", j > 0 ? " " : "", config->instance_group[j]->name);
      buffer_append_format(&kinds, "%s%s", j > 0 ? " " : "",
                           config_kind_name(config->instance_group[j]->kind));
    }
    buffer_append_char(&names, '\0');
    buffer_append_char(&kinds, '\0');
    assert_string_equal(names.data, cases[i].names);
    assert_string_equal(kinds.data, cases[i].kinds);
    assert_int_equal(config_instances(config), cases[i].instances);
  }
}

static void with_gpus_a_group_is_placed_on_all_of_them(void **state)
{
  (void)state;
  const int32_t ids[] = {0, 3};
  const config_gpus gpus = {ids, 2, MIN_COMPUTE_CAPABILITY, false};
  AUTO_CONFIG Inference__ModelConfig *config =
      read_text("name: 'm' backend: 'onnxruntime' instance_group [ {}, { count: 2 gpus: 3 }, "
                "{ gpus: [ 0, 1 ] } ]");
  assert_null(config_normalize_instance_groups(config, NULL, 0, gpus));
  assert_int_equal(config->instance_group[0]->kind,
                   INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU);
  assert_int_equal(config->instance_group[0]->n_gpus, 2);
  assert_int_equal(config_group_instances(config->instance_group[0]), 2);
  assert_int_equal(config_group_instances(config->instance_group[1]), 2);
  assert_int_equal(config->instance_group[2]->kind,
                   INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU);
}

#define KIND(name) INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_##name

static const config_preferred_group prefers_cpu[] = {{KIND(CPU), 0, NULL, 0}};
static const config_preferred_group prefers_gpu[] = {{KIND(GPU), 3, NULL, 0},
                                                     {KIND(CPU), 5, NULL, 0}};
static const config_preferred_group prefers_one_gpu[] = {
    {KIND(GPU), 0, (const int32_t[]){3, 7}, 2}};
static const config_preferred_group prefers_another[] = {{KIND(GPU), 2, (const int32_t[]){7}, 1}};
static const config_preferred_group prefers_auto[] = {{KIND(AUTO), 2, (const int32_t[]){3}, 1}};

// "KIND_GPU 2 0 3": kind, count and GPUs of the one group.
static char *describe_group(const Inference__ModelConfig *config)
{
  buffer text = BUFFER_EMPTY;
  const Inference__ModelInstanceGroup *group = config->instance_group[0];
  assert_int_equal(config->n_instance_group, 1);
  buffer_append_format(&text, "%s %d", config_kind_name(group->kind), (int)group->count);
  for (size_t i = 0; i < group->n_gpus; i++)
    buffer_append_format(&text, " %d", (int)group->gpus[i]);
  return buffer_take_text(&text);
}

// Of GPUs 0 and 3.
static void kind_count_and_gpus_come_from_group_backend_and_machine(void **state)
{
  (void)state;
  static const struct {
    const char *group;
    const config_preferred_group *preferred;
    size_t preferred_size;
    bool avoided;
    const char *is;
  } cases[] = {
      {"", NULL, 0, false, "KIND_GPU 1 0 3"},
      {"", NULL, 0, true, "KIND_CPU 1"},
      {"", prefers_cpu, 1, false, "KIND_CPU 1"},
      {"", prefers_gpu, 2, false, "KIND_GPU 3 0 3"},
      {"", prefers_one_gpu, 1, false, "KIND_GPU 1 3"},
      {"", prefers_another, 1, false, "KIND_GPU 2 0 3"}, // none of those that it names is there
      {"", prefers_auto, 1, false, "KIND_GPU 2 3"},
      {"{ count: 2 }", prefers_cpu, 1, false, "KIND_GPU 2 0 3"},
      {"{ count: 2 }", prefers_cpu, 1, true, "KIND_CPU 2"},
      {"{ gpus: 3 }", prefers_cpu, 1, true, "KIND_GPU 1 3"},
      {"{ gpus: [ 3, 7 ] }", NULL, 0, false, "KIND_CPU 1 3 7"}, // which is refused
      {"{ kind: KIND_GPU }", prefers_cpu, 1, true, "KIND_GPU 1 0 3"},
      {"{ kind: KIND_GPU }", prefers_gpu, 2, false, "KIND_GPU 3 0 3"},
      {"{ kind: KIND_GPU }", prefers_one_gpu, 1, false, "KIND_GPU 1 3"},
      {"{ kind: KIND_GPU gpus: 0 }", prefers_one_gpu, 1, false, "KIND_GPU 1 0"},
      {"{ kind: KIND_GPU count: 2 gpus: [ 3, 0 ] }", prefers_gpu, 2, false, "KIND_GPU 2 3 0"},
      {"{ kind: KIND_CPU }", prefers_gpu, 2, false, "KIND_CPU 5"},
      {"{ kind: KIND_MODEL }", prefers_gpu, 2, false, "KIND_MODEL 1"},
  };
  const int32_t ids[] = {0, 3};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[256];
    const config_gpus gpus = {ids, 2, MIN_COMPUTE_CAPABILITY, cases[i].avoided};
    snprintf(text, sizeof(text), "name: 'm' backend: 'x' %s%s",
             cases[i].group[0] != '\0' ? "instance_group " : "", cases[i].group);
    AUTO_CONFIG Inference__ModelConfig *config = read_text(text);
    assert_null(config_normalize_instance_groups(config, cases[i].preferred,
                                                 cases[i].preferred_size, gpus));
    AUTO_FREE char *is = describe_group(config);
    if (strcmp(is, cases[i].is) != 0)
      fail_msg("%zu \"%s\": %s, expected %s", i, cases[i].group, is, cases[i].is);
  }
}

static void what_the_backend_prefers_fills_what_is_not_configured(void **state)
{
  (void)state;
  const config_preferred_group preferred[] = {
      {INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU, 4, NULL, 0}, // there is none
      {INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU, 5, NULL, 0},
  };
  AUTO_CONFIG Inference__ModelConfig *implicit = read_text("name: 'm' backend: 'x'");
  assert_null(config_normalize_instance_groups(implicit, preferred, 2, no_gpus));
  assert_int_equal(implicit->instance_group[0]->count, 5);
  AUTO_CONFIG Inference__ModelConfig *explicit = read_text(
      "name: 'm' instance_group [ { count: 2 }, { kind: KIND_CPU }, { kind: KIND_MODEL } ]");
  assert_null(config_normalize_instance_groups(explicit, preferred, 2, no_gpus));
  assert_int_equal(explicit->instance_group[0]->count, 2);
  assert_int_equal(explicit->instance_group[1]->count, 5);
  assert_int_equal(explicit->instance_group[2]->count, 1);
}

// ---- auto-completion ----

static void a_backend_completes_tensors_batching_and_scheduler_and_nothing_else(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *base =
      read_text("name: 'm' backend: 'x' input { name: 'old' } output { name: 'out' }");
  AUTO_CONFIG Inference__ModelConfig *found = read_text(
      "name: 'other' backend: 'y' max_batch_size: 4 input [ { name: 'a' data_type: TYPE_FP32 dims: "
      "1 }, { name: 'b' } ] dynamic_batching {} model_transaction_policy { decoupled: true } "
      "instance_group { count: 9 } parameters { key: 'k' }");
  assert_null(config_apply_autocomplete(base, found));
  assert_string_equal(base->name, "m");
  assert_string_equal(base->backend, "x");
  assert_int_equal(base->max_batch_size, 4);
  assert_int_equal(base->n_input, 2);
  for (size_t i = 0; i < base->n_input; i++)
    assert_string_not_equal(base->input[i]->name, "old");
  assert_string_equal(base->input[1]->name, "b");
  assert_int_equal(base->n_output, 0);
  assert_int_equal(base->dynamic_batching->preferred_batch_size[0], 4);
  assert_true(config_is_decoupled(base));
  assert_int_equal(base->n_instance_group, 0);
  assert_int_equal(base->n_parameters, 0);
  assert_int_equal(found->n_input, 2); // the backend's stays whole
}

static void a_backend_cannot_change_the_scheduler(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *base =
      read_text("name: 'm' dynamic_batching { preserve_ordering: true } input { name: 'a' }");
  AUTO_CONFIG Inference__ModelConfig *other = read_text("sequence_batching {} max_batch_size: 2");
  AUTO_ERROR error *e = config_apply_autocomplete(base, other);
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_INTERNAL);
  assert_string_equal(error_message(e),
                      "Cannot update scheduling choice from 11 to 13 when auto-completing.");
  assert_int_equal(base->max_batch_size, 0);
  assert_int_equal(base->n_input, 1);

  AUTO_CONFIG Inference__ModelConfig *same = read_text("dynamic_batching {} max_batch_size: 2");
  assert_null(config_apply_autocomplete(base, same));
  assert_true(base->dynamic_batching->preserve_ordering);
}

// ---- validation ----

static const char tensors[] = "input { name: 'i' data_type: TYPE_FP32 dims: 4 } "
                              "output { name: 'o' data_type: TYPE_FP32 dims: 4 } ";

// Triton's words are the first line; where and what to do about it follow.
static void assert_first_line(const char *text, const char *wanted)
{
  char line[1024];
  snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
  assert_string_equal(line, wanted);
}

// Validates `text`, which is completed first, and compares the error, NULL for none.
static void assert_validates(const char *text, const char *message, error_code code)
{
  AUTO_CONFIG Inference__ModelConfig *config = read_text(text);
  assert_null(config_normalize(config));
  assert_null(config_normalize_instance_groups(config, NULL, 0, no_gpus));
  AUTO_ERROR error *e = config_validate(config, no_gpus, NULL);
  if (message == NULL && e != NULL)
    fail_msg("%s: %s", text, error_message(e));
  if (message != NULL && e == NULL)
    fail_msg("accepted: %s", text);
  if (message == NULL)
    return;
  assert_first_line(error_message(e), message);
  assert_int_equal(error_get_code(e), code);
}

static void rules_for_the_model_are_kept(void **state)
{
  (void)state;
  const struct {
    const char *text, *message;
  } cases[] = {
      {"backend: 'x'", NULL},
      {"", "unexpected platform type '' for m"},
      {"platform: 'x'", "unexpected platform type 'x' for m"},
      {"backend: 'x' platform: 'anything'", NULL},
      {"backend: 'onnxruntime' platform: 'onnxruntime_onnx'", NULL},
      {"backend: 'pytorch' platform: 'torch_aoti'", NULL},
      {"backend: 'onnxruntime' platform: 'onnxruntim'",
       "unexpected 'platform' and 'backend' pair, got:onnxruntim, onnxruntime"},
      {"backend: 'x' platform: 'ensemble'",
       "Ensemble model 'm' must have platform type 'ensemble' and empty backend type"},
      {"platform: 'ensemble'",
       "ensemble scheduling must be set for ensemble m whose platform is ensemble"},
      {"backend: 'x' ensemble_scheduling {}",
       "ensemble scheduling cannot be set for model 'm' whose platform is not ensemble"},
      {"backend: 'x' max_batch_size: -1", "'max_batch_size' must be non-negative value for m"},
      {"backend: 'x' max_batch_size: 4 dynamic_batching { preferred_batch_size: [ 4, 0 ] }",
       "dynamic batching preferred size must be positive for m"},
      {"backend: 'x' max_batch_size: 4 dynamic_batching { preferred_batch_size: 5 }",
       "dynamic batching preferred size must be <= max batch size for m"},
      {"backend: 'x' max_batch_size: 4 dynamic_batching { preferred_batch_size: [ 1, 4 ] }", NULL},
      {"backend: 'x' dynamic_batching { priority_levels: 3 }",
       "default priority level must be in range [1, 3] for m"},
      {"backend: 'x' dynamic_batching { priority_levels: 3 default_priority_level: 4 }",
       "default priority level must be in range [1, 3] for m"},
      {"backend: 'x' dynamic_batching { priority_levels: 3 default_priority_level: 3 "
       "priority_queue_policy { key: 4 } }",
       "priority queue policy must have priority level in range [1, 3] for m"},
      {"backend: 'x' dynamic_batching { priority_levels: 3 default_priority_level: 3 "
       "priority_queue_policy { key: 3 } }",
       NULL},
      {"backend: 'x' dynamic_batching { preserve_ordering: true priority_levels: 2 "
       "default_priority_level: 1 }",
       "Only one priority level is allowed when 'preserve_ordering' is true for m"},
      {"backend: 'x' dynamic_batching { preserve_ordering: true default_queue_policy { "
       "timeout_action: DELAY default_timeout_microseconds: 1 } }",
       "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true for m"},
      {"backend: 'x' dynamic_batching { preserve_ordering: true default_queue_policy { "
       "timeout_action: DELAY } }",
       NULL},
      {"backend: 'x' model_metrics { metric_control {} }",
       "metric control must specify 'metric_identifier'"},
      {"backend: 'x' model_metrics { metric_control { metric_identifier {} } }",
       "metric identifier must specify non-empty 'family'"},
      {"backend: 'x' model_metrics { metric_control { metric_identifier { family: 'f' } } }",
       "metric control must specify 'histogram_options'"},
      {"backend: 'x' model_metrics { metric_control { metric_identifier { family: 'f' } "
       "histogram_options {} } }",
       "histogram options must specify non-empty 'buckets'"},
      {"backend: 'x' response_cache { enable: true } model_transaction_policy { decoupled: true }",
       "Response Cache does not currently support model m with 'decoupled' transaction policy. "
       "Please disable the response cache."},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[1024];
    snprintf(text, sizeof(text), "name: 'm' %s %s", tensors, cases[i].text);
    assert_validates(text, cases[i].message, ERROR_INVALID_ARG);
  }
}

static void rules_for_tensors_are_kept(void **state)
{
  (void)state;
  const struct {
    const char *text, *message;
  } cases[] = {
      {"name: 't' data_type: TYPE_FP32 dims: [ 4, -1 ]", NULL},
      {"data_type: TYPE_FP32 dims: 4", "model input must specify 'name' for m"},
      {"name: 't' dims: 4", "model input 't' must specify 'data_type' for m"},
      {"name: 't' data_type: TYPE_FP32", "model input 't' must specify 'dims' for m"},
      {"name: 't' data_type: TYPE_FP32 dims: [ 4, 0 ]",
       "model input 't' dimension must be integer >= 1, or -1 to indicate a variable-size "
       "dimension for m"},
      {"name: 't' data_type: TYPE_FP32 dims: -2",
       "model input 't' dimension must be integer >= 1, or -1 to indicate a variable-size "
       "dimension for m"},
      {"name: 't' data_type: TYPE_FP32 dims: [ 4294967296, 4294967296 ]",
       "element count for tensor 't dims' exceeds maximum size of 9223372036854775807 for m"},
      {"name: 't' data_type: TYPE_FP32 dims: 4 reshape { shape: [ 2, 2 ] }", NULL},
      {"name: 't' data_type: TYPE_FP32 dims: 4 reshape { shape: [ 2, 3 ] }",
       "model input 't' has different size for dims and reshape for m"},
      {"name: 't' data_type: TYPE_FP32 dims: 4 reshape { shape: [ 4, 0 ] }",
       "model input 't' reshape dimensions must be integer >= 1, or -1 to indicate a "
       "variable-size dimension for m"},
      {"name: 't' data_type: TYPE_FP32 dims: 4 reshape { shape: -1 }",
       "model input 't' has different size for dims and reshape for m"},
      {"name: 't' data_type: TYPE_FP32 dims: [ 2, 4, -1, 6 ] reshape { shape: [ 8, -1, 1, 6 ] }",
       NULL},
      {"name: 't' data_type: TYPE_FP32 dims: [ 2, -1, 6 ] reshape { shape: [ 6, -1, 2 ] }",
       "model input 't' has different size for dims and reshape for m"},
      {"name: 't' data_type: TYPE_FP32 dims: [ -1, -1 ] reshape { shape: -1 }",
       "model input 't' has different number of variable-size dimensions for dims and reshape for "
       "m"},
      {"name: 't' data_type: TYPE_FP32 dims: 1 reshape { }",
       "model input 't' cannot have empty reshape for non-batching model as scalar tensors are "
       "not supported for m"},
      {"name: 't' data_type: TYPE_FP32 dims: [ 2, 2 ] format: FORMAT_NCHW",
       "model input NHWC/NCHW require 3 dims for m"},
      {"name: 't' data_type: TYPE_FP32 dims: 1 is_shape_tensor: true",
       "shape tensors are only supported for TensorRT platform for m"},
      {"name: 't' data_type: TYPE_FP32 dims: 1 is_non_linear_format_io: true",
       "Non-linear IO format is only supported for the TensorRT platform for m"},
      {"name: 't' data_type: TYPE_FP32 dims: 1 } input { name: 't' data_type: TYPE_FP32 dims: 1",
       "model input 't' is specified more than once for m"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[512];
    snprintf(text, sizeof(text), "name: 'm' backend: 'x' input { %s }", cases[i].text);
    assert_validates(text, cases[i].message, ERROR_INVALID_ARG);
  }
  assert_validates("name: 'm' backend: 'x' output { name: 't' data_type: TYPE_FP32 dims: 0 }",
                   "model output 't' dimension must be integer >= 1, or -1 to indicate a "
                   "variable-size dimension for m",
                   ERROR_INVALID_ARG);
  assert_validates("name: 'm' backend: 'x' output [ { name: 't' data_type: TYPE_FP32 dims: 1 }, "
                   "{ name: 't' data_type: TYPE_FP32 dims: 1 } ]",
                   "model output 't' is specified more than once for m", ERROR_INVALID_ARG);
  assert_validates(
      "name: 'm' backend: 'x' max_batch_size: 1 input { name: 't' data_type: TYPE_FP32 "
      "dims: 1 reshape { } }",
      NULL, ERROR_UNKNOWN);
}

static void rules_for_instance_groups_are_kept(void **state)
{
  (void)state;
  const struct {
    const char *text, *message;
  } cases[] = {
      {"{ kind: KIND_CPU count: 4096 }", NULL},
      {"{ kind: KIND_CPU count: 4097 }",
       "instance group m_0 of model m makes 4097 instances, expected at most 4096"},
      {"{ kind: KIND_GPU }",
       "instance group m_0 of model m has kind KIND_GPU but no GPUs are available"},
      {"{ kind: KIND_GPU gpus: 42 }",
       "instance group m_0 of model m specifies invalid or unsupported gpu id 42. GPUs with at "
       "least the minimum required CUDA compute compatibility of 7.500000 are: "},
      {"{ kind: KIND_CPU gpus: 0 }",
       "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs"},
      {"{}, { kind: KIND_MODEL gpus: 0 }",
       "instance group m_1 of model m has kind KIND_MODEL but specifies one or more GPUs"},
      {"{ profile: '1' }", "instance group m_0 of model m and platform specifies profile field "
                           "which is only supported for TensorRT models"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[512];
    snprintf(text, sizeof(text), "name: 'm' backend: 'x' instance_group [ %s ]", cases[i].text);
    assert_validates(text, cases[i].message, ERROR_INVALID_ARG);
  }
}

static void the_name_must_be_the_dirs(void **state)
{
  (void)state;
  AUTO_CONFIG Inference__ModelConfig *config = read_text("name: 'm'");
  assert_null(config_check_name(config, "m"));
  AUTO_ERROR error *e = config_check_name(config, "n");
  assert_string_equal(error_message(e), "unexpected directory name 'n' for model 'm', directory "
                                        "name must equal model name");
}

// ---- versions and types ----

static void a_version_policy_selects_from_what_is_there(void **state)
{
  (void)state;
  const struct {
    const char *text;
    int64_t versions[5];
    size_t count;
  } cases[] = {
      {"", {10}, 1},
      {"version_policy { latest { num_versions: 2 } }", {9, 10}, 2},
      {"version_policy { latest { num_versions: 0 } }", {0}, 0},
      {"version_policy { latest { num_versions: 4294967295 } }", {0, 2, 9, 10}, 4},
      {"version_policy { all {} }", {0, 2, 9, 10}, 4},
      {"version_policy {}", {0, 2, 9, 10}, 4},
      {"version_policy { specific { versions: [ 9, 3, 2, 9 ] } }", {2, 9}, 2},
      {"version_policy { specific {} }", {0}, 0},
  };
  const int64_t available[] = {10, 0, 9, 2};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    AUTO_CONFIG Inference__ModelConfig *config = read_text(cases[i].text);
    int64_t selected[4];
    size_t count = 99;
    config_select_versions(config, available, 4, selected, &count);
    assert_int_equal(count, cases[i].count);
    assert_memory_equal(selected, cases[i].versions, count * sizeof(int64_t));
    config_select_versions(config, NULL, 0, NULL, &count);
    assert_int_equal(count, 0);
  }
}

static void every_datatype_has_one_row_that_agrees_with_the_proto(void **state)
{
  (void)state;
  for (int value = 1; value <= 14; value++) {
    const datatype *row = datatype_by_value(value);
    assert_int_equal(row->value, value);
    const ProtobufCEnumValue *named =
        protobuf_c_enum_descriptor_get_value(&inference__data_type__descriptor, value);
    assert_string_equal(row->config_name, named->name);
  }
  assert_null(datatype_by_value(0));
  assert_null(datatype_by_value(15));
  assert_null(datatype_by_value(-1));
  assert_string_equal(datatype_by_value(INFERENCE__DATA_TYPE__TYPE_STRING)->wire_name, "BYTES");
  assert_int_equal(datatype_by_value(INFERENCE__DATA_TYPE__TYPE_BF16)->byte_size, 2);
}

static void an_element_count_is_checked_for_overflow(void **state)
{
  (void)state;
  int64_t count;
  assert_true(config_element_count((int64_t[]){2, 3}, 2, &count));
  assert_int_equal(count, 6);
  assert_true(config_element_count(NULL, 0, &count));
  assert_int_equal(count, 1);
  assert_true(config_element_count((int64_t[]){2, -1}, 2, &count));
  assert_int_equal(count, -1);
  assert_true(config_element_count((int64_t[]){0, INT64_MAX}, 2, &count));
  assert_int_equal(count, 0);
  assert_false(config_element_count((int64_t[]){2, INT64_MAX}, 2, &count));
  assert_false(config_element_count((int64_t[]){-2}, 1, &count));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(backend_platform_and_file_are_found_from_each_other_and_from_the_files),
      cmocka_unit_test(the_backend_that_was_meant_is_found),
      cmocka_unit_test(a_model_that_nothing_tells_about_has_no_backend),
      cmocka_unit_test(normalising_twice_changes_nothing_more),
      cmocka_unit_test(without_batching_there_is_no_preferred_size),
      cmocka_unit_test(what_is_configured_stays),
      cmocka_unit_test(instance_groups_get_names_kinds_and_counts),
      cmocka_unit_test(with_gpus_a_group_is_placed_on_all_of_them),
      cmocka_unit_test(kind_count_and_gpus_come_from_group_backend_and_machine),
      cmocka_unit_test(what_the_backend_prefers_fills_what_is_not_configured),
      cmocka_unit_test(a_backend_completes_tensors_batching_and_scheduler_and_nothing_else),
      cmocka_unit_test(a_backend_cannot_change_the_scheduler),
      cmocka_unit_test(rules_for_the_model_are_kept),
      cmocka_unit_test(rules_for_tensors_are_kept),
      cmocka_unit_test(rules_for_instance_groups_are_kept),
      cmocka_unit_test(the_name_must_be_the_dirs),
      cmocka_unit_test(a_version_policy_selects_from_what_is_there),
      cmocka_unit_test(every_datatype_has_one_row_that_agrees_with_the_proto),
      cmocka_unit_test(an_element_count_is_checked_for_overflow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
