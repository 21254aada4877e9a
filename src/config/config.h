// SPDX-License-Identifier: Apache-2.0
// Model configuration: reading, printing, completing and checking. Called from load threads and by
// the functions that answer GET …/config, never on the request path. A configuration is a
// protobuf-c message with one owner; the functions keep no state and may run on several threads at
// once.
//
// The order in which a model is loaded:
//   1. config_read_text (config.pbtxt) or config_read_json (override) or config_new (no file)
//   2. config_set_defaults       name, backend, platform, file name, policies
//   3. config_check_name, config_validate_model, config_check_batch_io
//   4. once the backend's preferred groups are known: config_normalize_instance_groups,
//      config_validate_instance_groups
//   5. the backend's ModelInitialize; config_apply_autocomplete takes its completions
//   6. config_validate           everything, tensors included
// With auto-completion off, also config_validate_tensors at 3.
#ifndef NEREID_CONFIG_CONFIG_H
#define NEREID_CONFIG_CONFIG_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/files.h"
#include "base/slice.h"
#include "config/backend_traits.h"
#include "config/datatype.h"
#include "config/diagnostics.h"
#include "config/model_config.pb-c.h" // IWYU pragma: export
#include "config/source_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- lifetime ----

// An empty configuration, or NULL when memory is short. Release it with config_free.
Inference__ModelConfig *config_new(void);
void config_free(Inference__ModelConfig *config_owned); // NULL is allowed
// A deep copy that the caller owns.
error *config_copy(const Inference__ModelConfig *config, Inference__ModelConfig **copy);

// Renames the configuration.
error *config_rename(Inference__ModelConfig *config, const char *name);
// Sets the namespace of the model of an ensemble's step.
error *config_place_step(Inference__ModelEnsembling__Step *step, const char *model_namespace);
error *config_set_decoupled(Inference__ModelConfig *config, bool decoupled);

static inline void cleanup_config(Inference__ModelConfig **config)
{
  config_free(*config);
}
#define AUTO_CONFIG __attribute__((cleanup(cleanup_config)))

// ---- reading and printing ----

// Reads protobuf's text format. On success *config is the caller's. Errors are INVALID_ARG and
// begin with "<file_name>:<line>:<column>: " (both from 1), then protobuf's words.
error *config_read_text(slice text, const char *file_name, Inference__ModelConfig **config);

// The same. `map` (empty before) can then tell the places of fields, by reading the text again; it
// stays empty when memory is short.
error *config_read_text_places(slice text, const char *file_name, source_map *map,
                               Inference__ModelConfig **config);

// The same for all mistakes: reading continues after each, so that `found` has all of them, and
// fills `map` (both the caller's, empty before). *config is the part that could be read. The only
// error is a lack of memory.
error *config_read_text_all(slice text, source_map *map, diagnostics *found,
                            Inference__ModelConfig **config);

// Reads the JSON form: proto names or camelCase, enums by name (any case) or number, 64-bit numbers
// as numbers or strings, null as absent. Unknown members, two members of a oneof and repeated keys
// of a map are refused; other repeated members are merged (config/message_json.h). On success
// *config is the caller's. Errors are INVALID_ARG and name the place: "input[0].dims[1]: expected
// …".
error *config_read_json(slice json, Inference__ModelConfig **config);

// Appends the answer to GET /v2/models/M/config: proto names, every scalar, enum, list and map, no
// unset message or oneof. The 64-bit fields that Triton shows as strings are strings here too.
error *config_print_json(const Inference__ModelConfig *config, buffer *out);

// ---- completing ----

// Fills missing fields that do not need the model itself: the name (the directory's), backend,
// platform and default_model_filename (config_infer_backend), then config_normalize. `model_dir` is
// the model's directory.
error *config_set_defaults(Inference__ModelConfig *config, const char *model_name,
                           const file_root *model_dir);

// Finds backend, platform and default_model_filename from each other and from the files in the
// first version directory, as Triton does; at last from a model name of the form x.<backend>.
// INVALID_ARG when nothing tells the backend.
error *config_infer_backend(Inference__ModelConfig *config, const char *model_name,
                            const file_root *model_dir);

// Sets the defaults of version policy, preferred batch sizes, sequence idle time, pinned memory.
// May be called again.
error *config_normalize(Inference__ModelConfig *config);

// A backend's preference where the configuration has none (TRITONBACKEND_BackendAttribute…).
typedef struct config_preferred_group {
  Inference__ModelInstanceGroup__Kind kind;
  uint64_t count; // 0: no preference
  const int32_t *gpus;
  size_t gpu_count;
} config_preferred_group;

// The usable GPUs: those with at least this compute capability.
typedef struct config_gpus {
  const int32_t *ids;
  size_t count;
  double capability; // --min-supported-compute-capability
  bool avoided;      // a group without kind and GPUs goes on the CPU nevertheless
} config_gpus;

#define MIN_COMPUTE_CAPABILITY 7.5 // Triton's default
#define CONFIG_NO_GPUS         ((config_gpus){NULL, 0, MIN_COMPUTE_CAPABILITY, false})

bool config_has_gpu(config_gpus gpus, int32_t id);

// Adds the implicit instance group, and sets every group's name, kind, count and GPUs. Afterwards
// no group is KIND_AUTO.
error *config_normalize_instance_groups(Inference__ModelConfig *config,
                                        const config_preferred_group *preferred,
                                        size_t preferred_count, config_gpus gpus);

// Makes `runner` run the model's backend. `environment` (a file or NULL) is the backend's
// environment unless the configuration names one.
error *config_set_runner(Inference__ModelConfig *config, const backend_traits *runner,
                         const char *environment);

// Copies into `base` the fields that a backend may complete (max_batch_size, inputs, outputs,
// decoupled, and the scheduler if `base` has none), then normalises it. INTERNAL when the backend
// wants another scheduler than the configured one.
error *config_apply_autocomplete(Inference__ModelConfig *base,
                                 const Inference__ModelConfig *from_backend);

// ---- checking; all errors are INVALID_ARG in Triton's words unless said otherwise ----

// The configuration's name must be the directory's.
error *config_check_name(const Inference__ModelConfig *config, const char *model_name);

// For all of these: the first line of an error's text is Triton's. The second gives the field and,
// if known, a remedy; with `source` (or NULL) also the place in the file.

// Checks everything but tensors and instance groups.
error *config_validate_model(const Inference__ModelConfig *config, const source_map *source);

// The parameter latency_objective_us in *ns; 0: none. INVALID_ARG when it is no number, or without
// dynamic batching.
error *config_latency_objective(const Inference__ModelConfig *config, uint64_t *ns);

// If the configuration names inputs and has batch_input or batch_output: checks all tensors before
// the backend sees them.
error *config_check_batch_io(const Inference__ModelConfig *config, const source_map *source);

// The paths in a configuration that came with a request must stay below the model's directory,
// unless `own` (the operator's configuration of that model, or NULL) has the same path in the same
// field: default_model_filename, cc_model_filenames, label_filename, op_library_filename,
// EXECUTION_ENV_PATH.
error *config_check_request_paths(const Inference__ModelConfig *config,
                                  const Inference__ModelConfig *own);
// Checks inputs, outputs and batch inputs/outputs: names, types, dims, reshapes.
error *config_validate_tensors(const Inference__ModelConfig *config, const source_map *source);
// Checks instance groups, after config_normalize_instance_groups.
error *config_validate_instance_groups(const Inference__ModelConfig *config, config_gpus gpus,
                                       const source_map *source);
// All of these checks.
error *config_validate(const Inference__ModelConfig *config, config_gpus gpus,
                       const source_map *source);

// The model of an ensemble's step: its name in messages, and its completed configuration, or NULL:
// unknown, and the step is left out.
typedef struct config_step_model {
  const char *id;
  const Inference__ModelConfig *config;
} config_step_model;

// Checks an ensemble that passes config_validate_model beside the models of all its steps. `id` is
// its name in messages. *decoupled: it has decoupled steps, and answers as often as they do.
error *config_validate_steps(const Inference__ModelConfig *config, const char *id,
                             const config_step_model *steps, const source_map *source,
                             bool *decoupled);
// The same, but adds all findings.
void config_diagnose_steps(const Inference__ModelConfig *config, const char *id,
                           const config_step_model *steps, const source_map *source,
                           diagnostics *found);

// Adds all findings about a configuration that has its defaults: everything that config_validate
// refuses, and warnings of settings without effect. `source` gives the places of fields; NULL is
// allowed.
void config_diagnose(const Inference__ModelConfig *config, config_gpus gpus,
                     const source_map *source, diagnostics *found);

// ---- questions ----

// Selects the versions that the policy serves; without a policy the latest. `available` has no
// duplicates; `selected` has room for `available_count` and is ascending. Logs versions that the
// policy names and that are absent.
void config_select_versions(const Inference__ModelConfig *config, const int64_t *available,
                            size_t available_count, int64_t *selected, size_t *selected_count);

// A parameter's string_value, borrowed; NULL when it is absent.
const char *config_parameter(const Inference__ModelConfig *config, const char *key);

// The only metric family with buckets that a model may choose.
#define CONFIG_METRIC_FAMILY "nv_inference_first_response_histogram_ms"

// The reason why a control of model_metrics that passes the rules has no effect; NULL if it has
// one. It follows the words "Metric family '…' in 'metric_identifier' ".
const char *config_metric_in_vain(const Inference__ModelMetrics__MetricControl *control);

bool config_is_decoupled(const Inference__ModelConfig *config);
bool config_is_ensemble(const Inference__ModelConfig *config);

// The number of instances of a (normalised) group or of all groups: `count`, times the GPUs for
// KIND_GPU.
size_t config_group_instances(const Inference__ModelInstanceGroup *group);
size_t config_instances(const Inference__ModelConfig *config);

// "KIND_CPU" and so on.
const char *config_kind_name(Inference__ModelInstanceGroup__Kind kind);

// Number of elements: the product of `dims`; -1 when one is variable, 1 when there are none. False
// on overflow of int64 or a dimension below -1.
bool config_element_count(const int64_t *dims, size_t count, int64_t *elements);

// True when the configurations are equal or differ only in version_policy: running versions may
// stay.
bool config_equal_but_policy(const Inference__ModelConfig *a, const Inference__ModelConfig *b);
// The same, but instance_group may differ too: running versions may change their instances.
bool config_equal_but_groups(const Inference__ModelConfig *a, const Inference__ModelConfig *b);
// *alike: whether instances of one group can serve for the other: the groups differ in name and
// count at most.
error *config_groups_alike(const Inference__ModelInstanceGroup *a,
                           const Inference__ModelInstanceGroup *b, bool *alike);

#endif
