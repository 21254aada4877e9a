// SPDX-License-Identifier: Apache-2.0
// The rules of a configuration, by the cases of tests/config_rules/rules.txt: each is refused in
// its words, by loads, and by config_diagnose, which says more of it and finds all.
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "config/config.h"
#include "config/field_effects.h"
#include "config/reflection.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const config_gpus no_gpus = {NULL, 0, MIN_COMPUTE_CAPABILITY, false};

typedef struct rule_case {
  char title[128];
  char text[2048];
  char wanted[512]; // "" where it is accepted
} rule_case;

// Reads `text` with its places and completes it.
static Inference__ModelConfig *complete(const char *text, source_map *places)
{
  Inference__ModelConfig *config = NULL;
  error *e = config_read_text_places(slice_of(text), "config.pbtxt", places, &config);
  if (e == NULL)
    e = config_normalize(config);
  if (e == NULL)
    e = config_normalize_instance_groups(config, NULL, 0, no_gpus);
  if (e != NULL)
    fail_msg("%s: %s", text, error_message(e));
  return config;
}

// The first line of `text`, without blanks at its end.
static void first_line(const char *text, char *line, size_t size)
{
  int length = (int)strcspn(text, "\n");
  while (length > 0 && text[length - 1] == ' ')
    length--;
  snprintf(line, size, "%.*s", length, text);
}

// ---- the cases ----

static void begin_text(rule_case *c)
{
  const bool all = strstr(c->title, "own all") != NULL;
  const bool tensors = all || strstr(c->title, "own tensors") != NULL;
  snprintf(c->text, sizeof(c->text), "name: 'M'\n%s%s",
           all ? "" : "backend: 'identity' max_batch_size: 4\n",
           tensors ? ""
                   : "input { name: 'INPUT0' data_type: TYPE_FP32 dims: 4 }\n"
                     "output { name: 'OUTPUT0' data_type: TYPE_FP32 dims: 4 }\n");
}

// Reads the next case; false behind the last.
static bool next_case(FILE *file, rule_case *c)
{
  char line[1024];
  long here = ftell(file);
  *c = (rule_case){.title = ""};
  for (; fgets(line, sizeof(line), file) != NULL; here = ftell(file)) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] == '[' && c->title[0] != '\0') {
      assert_int_equal(fseek(file, here, SEEK_SET), 0);
      break;
    }
    if (line[0] == '[') {
      snprintf(c->title, sizeof(c->title), "%.100s", line);
      begin_text(c);
    } else if (strncmp(line, "> ", 2) == 0 || strncmp(line, "nereid> ", 8) == 0) {
      snprintf(c->wanted, sizeof(c->wanted), "%.500s", strchr(line, '>') + 2);
    } else if (line[0] != '#' && line[0] != '\0') {
      const size_t size = strlen(c->text);
      snprintf(c->text + size, sizeof(c->text) - size, "%s\n", line);
    }
  }
  return c->title[0] != '\0';
}

static void check_load(const rule_case *c)
{
  AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
  AUTO_CONFIG Inference__ModelConfig *config = complete(c->text, &places);
  AUTO_ERROR error *e = config_validate(config, no_gpus, &places);
  char got[512] = "";
  if (e != NULL)
    first_line(error_message(e), got, sizeof(got));
  if (strcmp(got, c->wanted) != 0)
    fail_msg("%s:\n  wanted: %s\n  got:    %s", c->title, c->wanted, got);
}

static void check_diagnosis(const rule_case *c)
{
  AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  AUTO_CONFIG Inference__ModelConfig *config = complete(c->text, &places);
  config_diagnose(config, no_gpus, &places, &found);
  assert_false(found.failed);
  if (c->wanted[0] == '\0') {
    if (found.errors > 0)
      fail_msg("%s: %s", c->title, found.items[0].message);
    return;
  }
  char got[512] = "";
  const diagnostic *d = &found.items[0];
  assert_true(found.count > 0);
  first_line(d->message, got, sizeof(got));
  assert_string_equal(got, c->wanted);
  if (d->path[0] == '\0' || (d->place.line == 0 && strstr(c->title, "without") == NULL))
    fail_msg("%s: no place for '%s'", c->title, d->path);
}

static void every_rule_refuses_in_its_words(void **state)
{
  (void)state;
  FILE *file = fopen(RULES_FILE, "r");
  assert_non_null(file);
  size_t count = 0;
  for (rule_case c; next_case(file, &c); count++) {
    if (strstr(c.title, "servers") != NULL)
      continue;
    check_load(&c);
    check_diagnosis(&c);
  }
  fclose(file);
  assert_true(count > 100);
}

// A load fills these in before it asks the rules.
static void what_a_load_fills_in_is_asked_for_where_it_is_not(void **state)
{
  (void)state;
#define WHOLE "name: 'm' backend: 'x' version_policy { all {} } "
  const struct {
    const char *text, *message;
  } cases[] = {
      {"backend: 'x'", "model configuration must specify 'name'"},
      {"name: 'm' backend: 'x'", "must specify 'version policy' for m"},
      {WHOLE, "must specify one or more 'instance group's for m"},
      {WHOLE "instance_group { name: 'g' }",
       "instance group g of model m has unexpected kind KIND_AUTO"},
      {WHOLE "instance_group { name: 'g' kind: KIND_GPU }",
       "instance group g of model m has kind KIND_GPU but specifies no GPUs"},
  };
  const int32_t id = 0;
  const config_gpus gpus = {&id, 1, MIN_COMPUTE_CAPABILITY, false};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    AUTO_CONFIG Inference__ModelConfig *config = NULL;
    assert_null(config_read_text(slice_of(cases[i].text), "config.pbtxt", &config));
    AUTO_ERROR error *e = config_validate(config, gpus, NULL);
    assert_non_null(e);
    char line[512];
    first_line(error_message(e), line, sizeof(line));
    assert_string_equal(line, cases[i].message);
  }
}

// ---- what is said of a finding ----

static void a_load_says_what_then_where_and_what_to_do(void **state)
{
  (void)state;
  AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
  AUTO_CONFIG Inference__ModelConfig *config =
      complete("name: 'm' backend: 'x'\ninput {\n  name: 'i' data_type: TYPE_FP32\n"
               "  dims: [ 4, 0 ]\n}\n",
               &places);
  AUTO_ERROR error *known = config_validate(config, no_gpus, NULL);
  assert_string_equal(error_message(known),
                      "model input 'i' dimension must be integer >= 1, or -1 to indicate a "
                      "variable-size dimension for m\n"
                      "  at input[0].dims[1]: use -1 where any size goes");
  places.file_name = strdup("config.pbtxt");
  AUTO_ERROR error *placed = config_validate(config, no_gpus, &places);
  assert_string_equal(error_message(placed),
                      "model input 'i' dimension must be integer >= 1, or -1 to indicate a "
                      "variable-size dimension for m\n"
                      "  at config.pbtxt:4:14, input[0].dims[1]: use -1 where any size goes");
}

static void all_mistakes_are_found_in_one_run(void **state)
{
  (void)state;
  AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  AUTO_CONFIG Inference__ModelConfig *config =
      complete("name: 'm' backend: 'identity'\n"
               "dynamic_batching { preferred_batch_size: [ -1, 4 ] priority_levels: 2 }\n"
               "input { name: 'i' dims: 0 }\n"
               "output { data_type: TYPE_FP32 }\n"
               "batch_input { data_type: TYPE_BOOL source_input: 'j' target_name: 'b' }\n"
               "instance_group { kind: KIND_GPU }\n",
               &places);
  config_diagnose(config, no_gpus, &places, &found);
  diagnostics_sort(&found);
  const char *wanted[] = {
      "dynamic batching preferred size must be positive for m",
      "default priority level must be in range [1, 2] for m",
      "dynamic batching preferred size must be <= max batch size for m",
      "model input 'i' must specify 'data_type' for m",
      ("model input 'i' dimension must be integer >= 1, or -1 to indicate a variable-size "
       "dimension for m"),
      "model output must specify 'name' for m",
      "model output '' must specify 'dims' for m",
      "batch input data type must be TYPE_INT32 or TYPE_FP32 for m",
      "unknown source input name 'j' for m",
      "instance group m_0 of model m has kind KIND_GPU but no GPUs are available",
  };
  const size_t count = sizeof(wanted) / sizeof(wanted[0]);
  assert_int_equal(found.errors, count);
  for (size_t i = 0; i < count; i++) {
    size_t at = 0;
    while (at < found.count && strcmp(found.items[at].message, wanted[i]) != 0)
      at++;
    if (at == found.count)
      fail_msg("not found: %s", wanted[i]);
    assert_true(found.items[at].place.line > 0);
  }
}

// ---- what has no effect ----

// Each field below `message` has a row, and each row is a field: `*rows` counts them.
static void assert_rows(const ProtobufCMessageDescriptor *message, size_t *rows, unsigned depth)
{
  assert_true(depth < 16);
  const char *name = strchr(message->name, '.') + 1;
  for (unsigned i = 0; i < message->n_fields; i++) {
    field_ref field = &message->fields[i];
    char full[256];
    snprintf(full, sizeof(full), "%s.%s", name, field->name);
    const field_effect *effect = field_effect_of(full);
    if (effect == NULL)
      fail_msg("%s has no row in field_effects.c", full);
    assert_true((effect->kind == FIELD_USED) == (effect->reason == NULL));
    assert_true(effect->kind == FIELD_OF_BACKEND || effect->kind == FIELD_OF_GPUS ||
                effect->readers == NULL);
    const ProtobufCMessageDescriptor *child = NULL;
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
      child = field->descriptor;
    if (child != NULL && reflection_is_map(field))
      child = child->fields[1].type == PROTOBUF_C_TYPE_MESSAGE ? child->fields[1].descriptor : NULL;
    *rows += 1;
    if (child != NULL)
      assert_rows(child, rows, depth + 1);
  }
}

static void every_field_is_used_or_said_to_have_no_effect(void **state)
{
  (void)state;
  size_t rows = 0;
  assert_rows(&inference__model_config__descriptor, &rows, 0);
  for (const field_effect *e = field_effects; e->field != NULL; e++)
    assert_ptr_equal(field_effect_of(e->field), e); // no field twice
  assert_true(rows > 164);
}

static void what_is_said_in_vain_is_warned_of(void **state)
{
  (void)state;
  const struct {
    const char *text, *path, *message;
  } cases[] = {
      {"instance_group { kind: KIND_CPU secondary_devices {} }",
       "instance_group[0].secondary_devices",
       "'instance_group[0].secondary_devices' has no effect: no backend of nereid uses such "
       "devices"},
      {"optimization { cuda { graphs: true } }", "optimization.cuda",
       "'optimization.cuda' has no effect: there is no GPU"},
      {"optimization { input_pinned_memory { enable: true } }", "optimization.input_pinned_memory",
       "'optimization.input_pinned_memory' has no effect: there is no GPU"},
      {"optimization { output_pinned_memory {} }", "optimization.output_pinned_memory",
       "'optimization.output_pinned_memory' has no effect: there is no GPU"},
      {"optimization { gather_kernel_buffer_threshold: 1 }",
       "optimization.gather_kernel_buffer_threshold",
       "'optimization.gather_kernel_buffer_threshold' has no effect: there is no GPU"},
      {"optimization { eager_batching: true }", "optimization.eager_batching",
       "'optimization.eager_batching' has no effect: no backend of nereid prepares a batch ahead"},
      {"optimization { priority: PRIORITY_MAX }", "optimization.priority",
       "'optimization.priority' has no effect: no backend of nereid has priorities for models"},
      {"optimization { graph { level: 1 } }", "optimization.graph.level",
       "'optimization.graph.level' has no effect: only onnxruntime and tensorflow optimize graphs"},
      {"optimization { execution_accelerators { gpu_execution_accelerator {} } }",
       "optimization.execution_accelerators.gpu_execution_accelerator",
       "'optimization.execution_accelerators.gpu_execution_accelerator' has no effect: there is no "
       "GPU"},
      {"optimization { execution_accelerators { cpu_execution_accelerator {} } }",
       "optimization.execution_accelerators.cpu_execution_accelerator",
       "'optimization.execution_accelerators.cpu_execution_accelerator' has no effect: only "
       "onnxruntime has accelerators"},
      {"model_operations { op_library_filename: 'x' }", "model_operations.op_library_filename",
       "'model_operations.op_library_filename' has no effect: only onnxruntime and tensorflow "
       "load libraries with operators"},
      {"cc_model_filenames { key: '7.0' value: 'x' }", "cc_model_filenames",
       "'cc_model_filenames' has no effect: there is no GPU"},
      {"input { name: 'i' data_type: TYPE_FP32 dims: [ 1, 2, 3 ] format: FORMAT_NHWC }",
       "input[0].format",
       "'input[0].format' has no effect: values go to the backend in the order in which they come"},
      {"dynamic_batching {}", "dynamic_batching",
       "'dynamic_batching' makes no batches: 'max_batch_size' is 0"},
      {"max_batch_size: 4 dynamic_batching { default_priority_level: 1 }",
       "dynamic_batching.default_priority_level",
       "'default_priority_level' has no effect: there are no priority levels"},
      {"max_batch_size: 4 dynamic_batching { priority_queue_policy { key: 1 } }",
       "dynamic_batching.priority_queue_policy",
       "'priority_queue_policy' has no effect: there are no priority levels"},
      {"max_batch_size: 4 dynamic_batching { default_queue_policy { timeout_action: DELAY } }",
       "dynamic_batching.default_queue_policy.timeout_action",
       "'timeout_action' has no effect: no request times out"},
      {"version_policy { latest { num_versions: 0 } }", "version_policy.latest",
       "'version_policy' serves no version: the latest 0"},
      {"version_policy { specific {} }", "version_policy.specific",
       "'version_policy' serves no version: it names none"},
      {"model_warmup { name: 's' }", "model_warmup[0]",
       "warm-up sample 's' is skipped: its 'batch_size' is 0"},
      {"model_metrics { metric_control { metric_identifier { family: 'f' } histogram_options { "
       "buckets: 1 } } }",
       "model_metrics.metric_control[0]",
       "Metric family 'f' in 'metric_identifier' is not a customizable metric in Triton core, "
       "expected nv_inference_first_response_histogram_ms"},
      {"model_metrics { metric_control { metric_identifier { family: "
       "'nv_inference_first_response_histogram_ms' } histogram_options { buckets: [ 2, 1 ] } } }",
       "model_metrics.metric_control[0]",
       "Metric family 'nv_inference_first_response_histogram_ms' in 'metric_identifier' has no "
       "effect: Bucket Boundaries must be strictly sorted, and finite"},
      {"parameters { key: 'strict_output' value { string_value: 'true' } }",
       "parameters[\"strict_output\"]",
       "neither nereid nor backend 'identity' knows parameter 'strict_output'"},
      // What is used, what may be the model's own, and what is a default is not said anything of.
      {"parameters { key: 'strict_outputs' value { string_value: 'true' } }", NULL, NULL},
      {"model_metrics { metric_control { metric_identifier { family: "
       "'nv_inference_first_response_histogram_ms' } histogram_options { buckets: [ 1, 2 ] } } }",
       NULL, NULL},
      {"parameters { key: 'of_my_own' value { string_value: 'true' } }", NULL, NULL},
      {"instance_group { kind: KIND_CPU count: 2 } metric_tags { key: 'a' value: 'b' }", NULL,
       NULL},
      {"max_batch_size: 4 dynamic_batching { max_queue_delay_microseconds: 100 }", NULL, NULL},
      {"optimization {}", NULL, NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[512];
    snprintf(text, sizeof(text), "name: 'm' backend: 'identity' %s", cases[i].text);
    AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
    AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
    AUTO_CONFIG Inference__ModelConfig *config = complete(text, &places);
    config_diagnose(config, no_gpus, &places, &found);
    if (found.count != (cases[i].path != NULL))
      fail_msg("%s: %zu findings, the first: %s", cases[i].text, found.count,
               found.count > 0 ? found.items[0].message : "none");
    if (cases[i].path == NULL)
      continue;
    assert_int_equal(found.items[0].severity, DIAGNOSTIC_WARNING);
    assert_string_equal(found.items[0].path, cases[i].path);
    assert_string_equal(found.items[0].message, cases[i].message);
    assert_int_equal(found.items[0].place.line, 1);
  }
}

// How many warnings there are of fields that have no effect.
static void each_kind_of_model_is_told_what_it_does_not_read(void **state)
{
  (void)state;
#define OPERATIONS "model_operations { op_library_filename: 'x' }"
#define GRAPH      "optimization { graph { level: 1 } }"
#define CPU        "optimization { execution_accelerators { cpu_execution_accelerator {} } }"
#define BATCH                                                                                      \
  "input { name: 'i' data_type: TYPE_FP32 dims: 1 } output { name: 'o' data_type: TYPE_FP32 "      \
  "dims: 1 } batch_input { target_name: 't' data_type: TYPE_INT32 source_input: 'i' } "            \
  "batch_output { target_name: 'o' source_input: 'i' }"
#define ENSEMBLE                                                                                   \
  "platform: 'ensemble' input { name: 'i' data_type: TYPE_FP32 dims: 1 } output { name: 'o' "      \
  "data_type: TYPE_FP32 dims: 1 } ensemble_scheduling { step { model_name: 'a' input_map { key: "  \
  "'i' value: 'i' } output_map { key: 'o' value: 'o' } } } "
  const struct {
    const char *text;
    size_t count; // of warnings
    const char *first;
  } cases[] = {
      {"backend: 'tensorflow' optimization { priority: PRIORITY_MAX eager_batching: true }", 2,
       "'optimization.priority' has no effect: no backend of nereid has priorities for models"},
      {"backend: 'tensorflow' instance_group { kind: KIND_CPU secondary_devices {} }", 1,
       "'instance_group[0].secondary_devices' has no effect: no backend of nereid uses such "
       "devices"},
      {"backend: 'tensorflow' " OPERATIONS, 0, NULL},
      {"backend: 'tensorflow' " GRAPH, 0, NULL},
      {"backend: 'tensorflow' " CPU, 0, NULL}, // which it refuses
      {"backend: 'tensorflow' " BATCH, 0, NULL},
      {"backend: 'onnxruntime' " OPERATIONS, 0, NULL},
      {"backend: 'onnxruntime' " GRAPH, 0, NULL},
      {"backend: 'onnxruntime' " CPU, 0, NULL},
      {"backend: 'openvino' " GRAPH, 1,
       "'optimization.graph.level' has no effect: only onnxruntime and tensorflow optimize graphs"},
      {"backend: 'openvino' " BATCH, 0, NULL},
      {"backend: 'python' " BATCH, 2,
       "'batch_input' has no effect: the backend makes no tensors of a batch"},
      {"backend: 'foreign' " BATCH, 0, NULL},
      {ENSEMBLE, 0, NULL},
      {ENSEMBLE OPERATIONS, 1,
       "'model_operations.op_library_filename' has no effect: only onnxruntime and tensorflow "
       "load libraries with operators"},
      {ENSEMBLE "runtime: 'x' default_model_filename: 'y'", 2,
       "'default_model_filename' has no effect: an ensemble has no backend"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[1024];
    snprintf(text, sizeof(text), "name: 'm' %s", cases[i].text);
    AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
    AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
    AUTO_CONFIG Inference__ModelConfig *config = complete(text, &places);
    config_diagnose(config, no_gpus, &places, &found);
    size_t count = 0;
    const char *first = NULL;
    for (size_t k = 0; k < found.count; k++) {
      if (strstr(found.items[k].message, "has no effect") == NULL)
        continue;
      first = first == NULL ? found.items[k].message : first;
      count++;
    }
    if (count != cases[i].count)
      fail_msg("%s: %zu warnings, the first: %s", cases[i].text, count, first != NULL ? first : "");
    if (count > 0)
      assert_string_equal(first, cases[i].first);
  }
}

static void another_backend_may_read_what_ours_do_not(void **state)
{
  (void)state;
  AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
  AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
  AUTO_CONFIG Inference__ModelConfig *config =
      complete("name: 'm' backend: 'foreign' optimization { priority: PRIORITY_MAX graph { level: "
               "1 } } model_operations { op_library_filename: 'x' }",
               &places);
  config_diagnose(config, no_gpus, &places, &found);
  assert_int_equal(found.count, 0);
}

// With a GPU; those that only NVIDIA's TensorRT backend reads are still in vain with ours.
static void what_is_of_gpus_has_an_effect_where_there_are_some(void **state)
{
  (void)state;
  static const char *const backends[] = {"identity", "foreign"};
  static const char *const in_vain[] = {
      "'cc_model_filenames' has no effect: only onnxruntime chooses files by a GPU's compute "
      "capability",
      "'optimization.cuda' has no effect: only NVIDIA's tensorrt backend reads it",
      "'optimization.execution_accelerators.gpu_execution_accelerator' has no effect: only "
      "onnxruntime has accelerators",
      "'optimization.gather_kernel_buffer_threshold' has no effect: only NVIDIA's tensorrt backend "
      "reads it"};
  const int32_t id = 0;
  const config_gpus gpus = {&id, 1, MIN_COMPUTE_CAPABILITY, false};
  for (size_t i = 0; i < 2; i++) {
    char text[512];
    snprintf(text, sizeof(text),
             "name: 'm' backend: '%s' cc_model_filenames { key: '9.0' value: 'x' } optimization { "
             "input_pinned_memory { enable: true } cuda { graphs: true graph_spec {} } "
             "execution_accelerators { gpu_execution_accelerator { name: 'cuda' } } "
             "gather_kernel_buffer_threshold: 1 }",
             backends[i]);
    AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
    AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
    AUTO_CONFIG Inference__ModelConfig *config = complete(text, &places);
    config_diagnose(config, gpus, &places, &found);
    if (i > 0) {
      assert_int_equal(found.count, 0);
      continue;
    }
    assert_int_equal(found.count, 4);
    for (size_t k = 0; k < 4; k++)
      assert_string_equal(found.items[k].message, in_vain[k]);
  }
}

// ---- warm-up ----

static void a_warm_up_sample_says_what_it_is(void **state)
{
  (void)state;
  const struct {
    const char *input, *message;
  } cases[] = {
      {"data_type: TYPE_FP32 dims: [ 4 ] zero_data: true", NULL},
      {"data_type: TYPE_FP32 dims: [ 4, -1 ] zero_data: true",
       "warmup setting expects all variable-size dimensions are specified for input 'i'"},
      {"data_type: TYPE_FP32 dims: [ -2 ] zero_data: true",
       "warmup setting expects all variable-size dimensions are specified for input 'i'"},
      {"data_type: TYPE_FP32 dims: [ 4 ]",
       "[request id: <id_unknown>] warmup setting expects input 'i' to have input_data_type set"},
      {"data_type: TYPE_FP32 dims: [ 4611686018427387904, 4 ] zero_data: true",
       "byte size for tensor 'i' exceeds maximum size of 9223372036854775807"},
      {"data_type: TYPE_STRING dims: [ 4611686018427387904, 4 ] zero_data: true",
       "element count for tensor 'i' exceeds maximum size of 9223372036854775807"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[512];
    snprintf(
        text, sizeof(text),
        "name: 'm' backend: 'x' model_warmup { batch_size: 1 inputs { key: 'i' value { %s } } }",
        cases[i].input);
    AUTO_SOURCE_MAP source_map places = SOURCE_MAP_EMPTY;
    AUTO_CONFIG Inference__ModelConfig *config = complete(text, &places);
    AUTO_DIAGNOSTICS diagnostics found = DIAGNOSTICS_EMPTY;
    config_diagnose(config, no_gpus, &places, &found);
    assert_int_equal(found.errors, cases[i].message != NULL);
    if (cases[i].message != NULL)
      assert_string_equal(found.items[0].message, cases[i].message);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_rule_refuses_in_its_words),
      cmocka_unit_test(what_a_load_fills_in_is_asked_for_where_it_is_not),
      cmocka_unit_test(a_load_says_what_then_where_and_what_to_do),
      cmocka_unit_test(all_mistakes_are_found_in_one_run),
      cmocka_unit_test(every_field_is_used_or_said_to_have_no_effect),
      cmocka_unit_test(what_is_said_in_vain_is_warned_of),
      cmocka_unit_test(each_kind_of_model_is_told_what_it_does_not_read),
      cmocka_unit_test(another_backend_may_read_what_ours_do_not),
      cmocka_unit_test(what_is_of_gpus_has_an_effect_where_there_are_some),
      cmocka_unit_test(a_warm_up_sample_says_what_it_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
