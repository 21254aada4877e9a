// SPDX-License-Identifier: Apache-2.0
// TRITONBACKEND_Backend*, TRITONBACKEND_Model* and TRITONBACKEND_ModelInstance*: a backend's
// questions about itself, and its own state.
#include "api/convert.h"
#include "backend/frameworks.h"
#include "base/clock.h"
#include "core/instance.h"
#include "core/model.h"
#include "core/model_instances.h"
#include "nereid/nereid.h"
#include "request/message.h"
#include "request/request.h"
#include "triton/core/tritonbackend.h"

#include <assert.h>
#include <inttypes.h>

// ---- backend ----

API_GET(TRITONBACKEND_BackendName, TRITONBACKEND_Backend, const char *, self->name)
API_GET(TRITONBACKEND_BackendConfig, TRITONBACKEND_Backend, TRITONSERVER_Message *, self->config)
API_GET(TRITONBACKEND_BackendExecutionPolicy, TRITONBACKEND_Backend, TRITONBACKEND_ExecutionPolicy,
        self->policy)

TRITONSERVER_Error *TRITONBACKEND_BackendSetExecutionPolicy(TRITONBACKEND_Backend *b,
                                                            TRITONBACKEND_ExecutionPolicy policy)
{
  b->policy = policy;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendArtifacts(TRITONBACKEND_Backend *b,
                                                   TRITONBACKEND_ArtifactType *artifact_type,
                                                   const char **location)
{
  *artifact_type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = b->dir;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendMemoryManager(TRITONBACKEND_Backend *b,
                                                       TRITONBACKEND_MemoryManager **manager)
{
  *manager = b->memory_manager;
  return NULL;
}

API_GET(TRITONBACKEND_BackendState, TRITONBACKEND_Backend, void *, self->state)
API_SET(TRITONBACKEND_BackendSetState, TRITONBACKEND_Backend, void *, state)

TRITONSERVER_Error *TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
    TRITONBACKEND_BackendAttribute *attribute, TRITONSERVER_InstanceGroupKind kind, uint64_t count,
    const uint64_t *device_ids, uint64_t id_count)
{
  static const Inference__ModelInstanceGroup__Kind kinds[] = {
      [TRITONSERVER_INSTANCEGROUPKIND_AUTO] = INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_AUTO,
      [TRITONSERVER_INSTANCEGROUPKIND_CPU] = INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU,
      [TRITONSERVER_INSTANCEGROUPKIND_GPU] = INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_GPU,
      [TRITONSERVER_INSTANCEGROUPKIND_MODEL] = INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL,
  };
  if ((size_t)kind >= sizeof(kinds) / sizeof(kinds[0]))
    return error_to_abi(
        error_new(ERROR_INVALID_ARG, "instance group kind %d is not one of the API", (int)kind));
  return error_to_abi(
      backend_attribute_add_group(attribute, kinds[kind], count, device_ids, id_count));
}

TRITONSERVER_Error *TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(
    TRITONBACKEND_BackendAttribute *attribute, bool enabled)
{
  attribute->parallel_instance_loading = enabled;
  return NULL;
}

TRITONSERVER_Error *NEREID_BackendSetFramework(TRITONBACKEND_Backend *b, const char *name,
                                               const char *version, const char *path,
                                               uint64_t open_ns)
{
  if (name == NULL || version == NULL || path == NULL)
    return error_to_abi(
        error_new(ERROR_INVALID_ARG, "a framework needs a name, a version and a path"));
  const framework_record record = {b->name, name, version, path, open_ns};
  return error_to_abi(frameworks_add(&record));
}

// ---- model ----

API_GET(TRITONBACKEND_ModelName, TRITONBACKEND_Model, const char *, self->name)
API_GET(TRITONBACKEND_ModelVersion, TRITONBACKEND_Model, uint64_t, (uint64_t)self->target.version)

TRITONSERVER_Error *TRITONBACKEND_ModelRepository(TRITONBACKEND_Model *m,
                                                  TRITONBACKEND_ArtifactType *artifact_type,
                                                  const char **location)
{
  *artifact_type = TRITONBACKEND_ARTIFACT_FILESYSTEM;
  *location = m->dir;
  return NULL;
}

TRITONSERVER_Error *NEREID_ModelOpen(TRITONBACKEND_Model *m, const char *path, bool is_dir,
                                     int *descriptor)
{
  return error_to_abi(model_open(m, path, is_dir, descriptor));
}

static error *check_config_version(uint32_t version)
{
  if (version != 1)
    return error_new(ERROR_INVALID_ARG,
                     "model configuration version %" PRIu32
                     " not supported, supported versions are: 1",
                     version);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelConfig(TRITONBACKEND_Model *m, uint32_t config_version,
                                              TRITONSERVER_Message **result)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  error *e = check_config_version(config_version);
  if (e == NULL)
    e = model_print_config(m, &text);
  if (e == NULL)
    e = message_new_from_buffer(&text, result);
  return error_to_abi(e);
}

API_GET(TRITONBACKEND_ModelAutoCompleteConfig, TRITONBACKEND_Model, bool,
        !self->environment.options->strict_model_config)

TRITONSERVER_Error *TRITONBACKEND_ModelSetConfig(TRITONBACKEND_Model *m, uint32_t config_version,
                                                 TRITONSERVER_Message *model_config)
{
  AUTO_CONFIG Inference__ModelConfig *completed = NULL;
  error *e = check_config_version(config_version);
  if (e == NULL)
    e = config_read_json(message_text(model_config), &completed);
  if (e == NULL)
    e = model_complete_config(m, completed);
  return error_to_abi(e);
}

API_GET(TRITONBACKEND_ModelServer, TRITONBACKEND_Model, TRITONSERVER_Server *,
        self->environment.server)
API_GET(TRITONBACKEND_ModelBackend, TRITONBACKEND_Model, TRITONBACKEND_Backend *,
        self->shared.backend)
API_GET(TRITONBACKEND_ModelState, TRITONBACKEND_Model, void *, self->state)
API_SET(TRITONBACKEND_ModelSetState, TRITONBACKEND_Model, void *, state)

// ---- instance ----

API_GET(TRITONBACKEND_ModelInstanceName, TRITONBACKEND_ModelInstance, const char *, self->name)
API_GET(TRITONBACKEND_ModelInstanceKind, TRITONBACKEND_ModelInstance,
        TRITONSERVER_InstanceGroupKind, self->kind)
API_GET(TRITONBACKEND_ModelInstanceDeviceId, TRITONBACKEND_ModelInstance, int32_t, self->device_id)

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceHostPolicy(TRITONBACKEND_ModelInstance *i,
                                                          TRITONSERVER_Message **host_policy)
{
  return error_to_abi(instance_host_policy(i, host_policy));
}

API_GET(TRITONBACKEND_ModelInstanceIsPassive, TRITONBACKEND_ModelInstance, bool,
        self->group->passive)
API_GET(TRITONBACKEND_ModelInstanceProfileCount, TRITONBACKEND_ModelInstance, uint32_t,
        (uint32_t)self->group->n_profile)

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceProfileName(TRITONBACKEND_ModelInstance *i,
                                                           uint32_t index,
                                                           const char **profile_name)
{
  const Inference__ModelInstanceGroup *group = i->group;
  *profile_name = NULL;
  if (index >= group->n_profile)
    return error_to_abi(error_new(ERROR_INVALID_ARG,
                                  "out of bounds index %" PRIu32
                                  ": instance is configured with %zu profiles",
                                  index, group->n_profile));
  *profile_name = group->profile[index];
  return NULL;
}

API_GET(TRITONBACKEND_ModelInstanceSecondaryDeviceCount, TRITONBACKEND_ModelInstance, uint32_t,
        (uint32_t)self->group->n_secondary_devices)

TRITONSERVER_Error *
TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(TRITONBACKEND_ModelInstance *i, uint32_t index,
                                                     const char **kind, int64_t *id)
{
  const Inference__ModelInstanceGroup *group = i->group;
  if (index >= group->n_secondary_devices)
    return error_to_abi(error_new(ERROR_INVALID_ARG,
                                  "out of bounds index %" PRIu32
                                  ": instance is configured with %zu secondary devices",
                                  index, group->n_secondary_devices));
  *kind = "KIND_NVDLA"; // the only kind there is
  *id = group->secondary_devices[index]->device_id;
  return NULL;
}

API_GET(TRITONBACKEND_ModelInstanceModel, TRITONBACKEND_ModelInstance, TRITONBACKEND_Model *,
        self->shared->model)
API_GET(TRITONBACKEND_ModelInstanceState, TRITONBACKEND_ModelInstance, void *, self->state)
API_SET(TRITONBACKEND_ModelInstanceSetState, TRITONBACKEND_ModelInstance, void *, state)

// ---- memory ----

TRITONSERVER_Error *TRITONBACKEND_ModelReportMemoryUsage(TRITONBACKEND_Model *m,
                                                         TRITONSERVER_BufferAttributes **usage,
                                                         uint32_t usage_size)
{
  return error_to_abi(memory_report_set(&m->memory, usage, usage_size));
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportMemoryUsage(
    TRITONBACKEND_ModelInstance *i, TRITONSERVER_BufferAttributes **usage, uint32_t usage_size)
{
  return error_to_abi(memory_report_set(&i->memory, usage, usage_size));
}

// ---- statistics ----

// A moment that the backend reports, kept between the previous one and now.
static uint64_t moment(uint64_t before, uint64_t ns, uint64_t now)
{
  assert(before <= now);
  if (ns > now)
    ns = now;
  return ns < before ? before : ns;
}

static void report_compute(trace *t, const request_times *times)
{
  trace_report(t, TRITONSERVER_TRACE_COMPUTE_START, times->compute_start);
  trace_report(t, TRITONSERVER_TRACE_COMPUTE_INPUT_END, times->compute_input_end);
  trace_report(t, TRITONSERVER_TRACE_COMPUTE_OUTPUT_START, times->compute_output_start);
  trace_report(t, TRITONSERVER_TRACE_COMPUTE_END, times->compute_end);
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance *i, TRITONBACKEND_Request *r, bool success, uint64_t exec_start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns)
{
  request *of = (request *)r;
  bool single_writer;
  if (of->is_null)
    return NULL; // nobody's
  if (i->shared->reports != NULL) {
    const uint64_t moments[] = {exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns};
    i->shared->reports->request(i, of, success, moments);
    return NULL;
  }
  statistics *counters = instance_counters(i, &single_writer);
  request_times *times = &of->times;
  times->end = clock_monotonic_ns();
  times->compute_start = moment(times->queue_start, exec_start_ns, times->end);
  times->compute_input_end = moment(times->compute_start, compute_start_ns, times->end);
  times->compute_output_start = moment(times->compute_input_end, compute_end_ns, times->end);
  times->compute_end = moment(times->compute_output_start, exec_end_ns, times->end);
  if (of->factory->trace != NULL)
    report_compute(of->factory->trace, times);
  if (!success) {
    statistics_count_failure(counters, single_writer, FAILURE_BACKEND, times);
    return NULL;
  }
  statistics_count_success(counters, single_writer, times, request_rows(of));
  if (of->target->summaries != NULL)
    latency_summaries_add(of->target->summaries, times);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance *i, uint64_t batch_size, uint64_t exec_start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns)
{
  bool single_writer;
  if (i->shared->reports != NULL) {
    const uint64_t moments[] = {exec_start_ns, compute_start_ns, compute_end_ns, exec_end_ns};
    i->shared->reports->batch(i, batch_size, moments);
    return NULL;
  }
  statistics *counters = instance_counters(i, &single_writer);
  uint64_t now = clock_monotonic_ns();
  uint64_t start = moment(0, exec_start_ns, now);
  uint64_t input_end = moment(start, compute_start_ns, now);
  uint64_t output_start = moment(input_end, compute_end_ns, now);
  uint64_t end = moment(output_start, exec_end_ns, now);
  statistics_count_execution(counters, single_writer, batch_size, input_end - start,
                             output_start - input_end, end - output_start);
  return NULL;
}
