// TRITONBACKEND_Backend*, TRITONBACKEND_Model* and TRITONBACKEND_ModelInstance*: what a backend
// asks about itself and keeps.
#include "api/convert.h"
#include "base/clock.h"
#include "core/instance.h"
#include "core/model.h"
#include "nereid/nereid.h"
#include "request/message.h"
#include "request/request.h"
#include "triton/core/tritonbackend.h"

#include <inttypes.h>

// ---- backend ----

TRITONSERVER_Error *TRITONBACKEND_BackendName(TRITONBACKEND_Backend *b, const char **name)
{
  *name = b->name;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend *b,
                                                TRITONSERVER_Message **backend_config)
{
  *backend_config = b->config;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendExecutionPolicy(TRITONBACKEND_Backend *b,
                                                         TRITONBACKEND_ExecutionPolicy *policy)
{
  *policy = b->policy;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendSetExecutionPolicy(TRITONBACKEND_Backend *b,
                                                            TRITONBACKEND_ExecutionPolicy policy)
{
  b->policy = policy; // every instance has a thread of its own, which satisfies both policies
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
  *manager = (TRITONBACKEND_MemoryManager *)b; // it has no state of its own
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendState(TRITONBACKEND_Backend *b, void **state)
{
  *state = b->state;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend *b, void *state)
{
  b->state = state;
  return NULL;
}

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

// ---- model ----

TRITONSERVER_Error *TRITONBACKEND_ModelName(TRITONBACKEND_Model *m, const char **name)
{
  *name = m->name;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelVersion(TRITONBACKEND_Model *m, uint64_t *version)
{
  *version = (uint64_t)m->target.version;
  return NULL;
}

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
    return error_new(ERROR_UNSUPPORTED,
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
    e = config_print_json(m->config, &text);
  if (e == NULL)
    e = message_new_from_buffer(&text, result);
  return error_to_abi(e);
}

TRITONSERVER_Error *TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model *m,
                                                          bool *auto_complete_config)
{
  *auto_complete_config = !m->environment.options->strict_model_config;
  return NULL;
}

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

TRITONSERVER_Error *TRITONBACKEND_ModelServer(TRITONBACKEND_Model *m, TRITONSERVER_Server **server)
{
  *server = m->environment.server;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBackend(TRITONBACKEND_Model *m, TRITONBACKEND_Backend **b)
{
  *b = m->shared.backend;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelState(TRITONBACKEND_Model *m, void **state)
{
  *state = m->state;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelSetState(TRITONBACKEND_Model *m, void *state)
{
  m->state = state;
  return NULL;
}

// ---- instance ----

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance *i,
                                                    const char **name)
{
  *name = i->name;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceKind(TRITONBACKEND_ModelInstance *i,
                                                    TRITONSERVER_InstanceGroupKind *kind)
{
  *kind = i->kind;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance *i,
                                                        int32_t *device_id)
{
  *device_id = i->device_id;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceHostPolicy(TRITONBACKEND_ModelInstance *i,
                                                          TRITONSERVER_Message **host_policy)
{
  return error_to_abi(instance_host_policy(i, host_policy));
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceIsPassive(TRITONBACKEND_ModelInstance *i,
                                                         bool *is_passive)
{
  *is_passive = i->group->passive;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceProfileCount(TRITONBACKEND_ModelInstance *i,
                                                            uint32_t *count)
{
  *count = (uint32_t)i->group->n_profile;
  return NULL;
}

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

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSecondaryDeviceCount(TRITONBACKEND_ModelInstance *i,
                                                                    uint32_t *count)
{
  *count = (uint32_t)i->group->n_secondary_devices;
  return NULL;
}

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

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance *i,
                                                     TRITONBACKEND_Model **m)
{
  *m = i->shared->model;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance *i, void **state)
{
  *state = i->state;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance *i, void *state)
{
  i->state = state;
  return NULL;
}

// The backend's word for a moment: not before the one that came before it, nor in the future.
static uint64_t moment(uint64_t before, uint64_t ns, uint64_t now)
{
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
