// SPDX-License-Identifier: Apache-2.0
// Copies inputs to outputs, each output by one copy into the memory of the client's allocator.
#include "identity_execute.h"

#include "backend_error.h"
#include "backend_log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

// Servers older than API 1.19 / 1.34 lack these two functions. Without them the response has one
// parameter less and there are no trace activities.
#pragma weak TRITONBACKEND_ResponseSetDoubleParameter
#pragma weak TRITONSERVER_InferenceTraceReportActivity

#define TRACE_SPAN_MS 100

static void sleep_ms(int64_t milliseconds)
{
  struct timespec left = {.tv_sec = (time_t)(milliseconds / 1000),
                          .tv_nsec = (long)(milliseconds % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0)
    ;
}

void identity_delay(const identity_instance *self)
{
  const identity_model *model = self->model;
  int64_t factor = model->delay_multiplier * (int64_t)self->index;
  sleep_ms(model->execute_delay_ms * (factor > 1 ? factor : 1));
}

static TRITONSERVER_Error *report(TRITONSERVER_InferenceTrace *trace, const char *activity)
{
  return TRITONSERVER_InferenceTraceReportActivity(trace, clock_monotonic_ns(), activity);
}

// Reports the activities of Triton's backend: a span, a single mark, then nested spans.
static TRITONSERVER_Error *report_activities(const identity_model *model,
                                             TRITONBACKEND_Request *request)
{
  TRITONSERVER_InferenceTrace *trace = NULL;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestTrace(request, &trace));
  if (trace == NULL || TRITONSERVER_InferenceTraceReportActivity == NULL)
    return NULL;
  BACKEND_RETURN_IF_ERROR(report(trace, "CUSTOM_ACTIVITY_START"));
  sleep_ms(TRACE_SPAN_MS);
  BACKEND_RETURN_IF_ERROR(report(trace, "CUSTOM_ACTIVITY_END"));
  BACKEND_RETURN_IF_ERROR(report(trace, "CUSTOM_SINGLE_ACTIVITY"));
  char activity[64];
  for (int64_t i = 0; i < model->nested_span_count; i++) {
    snprintf(activity, sizeof(activity), "CUSTOM_ACTIVITY%lld_START", (long long)i);
    BACKEND_RETURN_IF_ERROR(report(trace, activity));
    sleep_ms(TRACE_SPAN_MS);
    if (i % model->single_activity_frequency == 0)
      BACKEND_RETURN_IF_ERROR(report(trace, "CUSTOM_SINGLE_ACTIVITY"));
  }
  for (int64_t i = model->nested_span_count; i-- > 0;) {
    snprintf(activity, sizeof(activity), "CUSTOM_ACTIVITY%lld_END", (long long)i);
    BACKEND_RETURN_IF_ERROR(report(trace, activity));
  }
  return NULL;
}

TRITONSERVER_Error *identity_count_bytes(const identity_model *model, const backend_input *input)
{
  return model->input_bytes == NULL
             ? NULL
             : TRITONSERVER_MetricIncrement(model->input_bytes, (double)input->byte_size);
}

static TRITONSERVER_Error *copy_input(const identity_model *model, const identity_pair *pair,
                                      const backend_input *input, TRITONBACKEND_Response *response)
{
  static const gpu_place host = {.kind = GPU_MEMORY_HOST};
  backend_room room;
  BACKEND_RETURN_IF_ERROR(identity_count_bytes(model, input));
  BACKEND_RETURN_IF_ERROR(backend_output_ask(response, pair->output_name, input->datatype,
                                             input->dims, input->rank, input->byte_size, host,
                                             &room));
  return backend_input_copy_to(input, room);
}

TRITONSERVER_Error *identity_zeros_of(const identity_pair *pair, int64_t batch_size,
                                      identity_zeros *zeros)
{
  zeros->rank = 0;
  if (batch_size > 0)
    zeros->dims[zeros->rank++] = batch_size;
  memcpy(zeros->dims + zeros->rank, pair->absent_shape.dims,
         pair->absent_shape.rank * sizeof(*zeros->dims));
  zeros->rank += (uint32_t)pair->absent_shape.rank;
  size_t element_count;
  // An empty string is four bytes of length.
  size_t element_size = pair->datatype == TRITONSERVER_TYPE_BYTES
                            ? sizeof(uint32_t)
                            : TRITONSERVER_DataTypeByteSize(pair->datatype);
  if (!backend_element_count(zeros->dims, zeros->rank, &element_count) ||
      __builtin_mul_overflow(element_count, element_size, &zeros->byte_size))
    return backend_error_invalid("output '%s' has an impossible shape", pair->output_name);
  return NULL;
}

static TRITONSERVER_Error *zero_output(const identity_pair *pair, int64_t batch_size,
                                       TRITONBACKEND_Response *response)
{
  identity_zeros zeros;
  backend_output output;
  BACKEND_RETURN_IF_ERROR(identity_zeros_of(pair, batch_size, &zeros));
  BACKEND_RETURN_IF_ERROR(backend_output_open(response, pair->output_name, pair->datatype,
                                              zeros.dims, zeros.rank, zeros.byte_size, &output));
  if (zeros.byte_size > 0)
    memset(output.data, 0, zeros.byte_size);
  return backend_output_close(&output);
}

TRITONSERVER_Error *identity_is_absent(const identity_pair *pair, TRITONBACKEND_Request *request,
                                       bool *absent)
{
  uint32_t count = 0;
  *absent = false;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputCount(request, &count));
  for (uint32_t i = 0; i < count; i++) {
    const char *candidate = NULL;
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputName(request, i, &candidate));
    if (strcmp(candidate, pair->input_name) == 0)
      return NULL;
  }
  *absent = true;
  return NULL;
}

static TRITONSERVER_Error *fill_output(const identity_instance *self, const identity_pair *pair,
                                       TRITONBACKEND_Request *request, int64_t batch_size,
                                       TRITONBACKEND_Response *response)
{
  backend_input input;
  bool absent = false;
  if (pair->optional)
    BACKEND_RETURN_IF_ERROR(identity_is_absent(pair, request, &absent));
  if (absent)
    return zero_output(pair, batch_size, response);
  BACKEND_RETURN_IF_ERROR(backend_input_find(request, pair->input_name, self->host_policy, &input));
  return copy_input(self->model, pair, &input, response);
}

// Makes the input the sequence's next state. An absent input leaves the state unchanged.
static TRITONSERVER_Error *keep_input(const identity_instance *self, const identity_pair *pair,
                                      TRITONBACKEND_Request *request)
{
  static const gpu_place host = {.kind = GPU_MEMORY_HOST};
  TRITONBACKEND_State *state;
  backend_input input;
  backend_room room;
  bool absent = false;
  if (pair->optional)
    BACKEND_RETURN_IF_ERROR(identity_is_absent(pair, request, &absent));
  if (absent)
    return NULL;
  BACKEND_RETURN_IF_ERROR(backend_input_find(request, pair->input_name, self->host_policy, &input));
  BACKEND_RETURN_IF_ERROR(backend_state_ask(request, pair->output_name, input.datatype, input.dims,
                                            input.rank, input.byte_size, host, &state, &room));
  BACKEND_RETURN_IF_ERROR(backend_input_copy_to(&input, room));
  return TRITONBACKEND_StateUpdate(state);
}

TRITONSERVER_Error *identity_set_parameters(TRITONBACKEND_Response *response)
{
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_ResponseSetStringParameter(response, "param0", "an example string parameter"));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ResponseSetIntParameter(response, "param1", 42));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_ResponseSetBoolParameter(response, "param2", false));
  if (TRITONBACKEND_ResponseSetDoubleParameter == NULL)
    return NULL;
  return TRITONBACKEND_ResponseSetDoubleParameter(response, "param3", 123.123);
}

TRITONSERVER_Error *identity_look(const identity_model *model, TRITONBACKEND_Request *request,
                                  int64_t *batch_size)
{
  *batch_size = 0;
  if (model->custom_tracing)
    BACKEND_RETURN_IF_ERROR(report_activities(model, request));
  if (!model->batches)
    return NULL;
  TRITONBACKEND_Input *input;
  const int64_t *dims;
  uint32_t rank;
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestInputByIndex(request, 0, &input));
  BACKEND_RETURN_IF_ERROR(
      TRITONBACKEND_InputProperties(input, NULL, NULL, &dims, &rank, NULL, NULL));
  *batch_size = rank > 0 ? dims[0] : 1;
  return NULL;
}

static const identity_pair *find_pair(const identity_model *model, const char *output_name,
                                      size_t likely)
{
  for (size_t step = 0; step < model->pair_count; step++) {
    const identity_pair *pair = &model->pairs[(likely + step) % model->pair_count];
    if (strcmp(pair->output_name, output_name) == 0)
      return pair;
  }
  return NULL;
}

static TRITONSERVER_Error *answer(const identity_instance *self, TRITONBACKEND_Request *request,
                                  TRITONBACKEND_Response *response, int64_t *batch_size)
{
  const identity_model *model = self->model;
  uint32_t output_count = 0;
  BACKEND_RETURN_IF_ERROR(identity_look(model, request, batch_size));
  BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestOutputCount(request, &output_count));
  for (uint32_t i = 0; i < output_count; i++) {
    const char *name = NULL;
    BACKEND_RETURN_IF_ERROR(TRITONBACKEND_RequestOutputName(request, i, &name));
    const identity_pair *pair = find_pair(model, name, i);
    if (pair == NULL || !pair->is_output)
      return backend_error_invalid("model '%s' has no output '%s'", model->name, name);
    BACKEND_RETURN_IF_ERROR(fill_output(self, pair, request, *batch_size, response));
  }
  for (size_t k = 0; k < model->pair_count; k++)
    if (model->pairs[k].is_state)
      BACKEND_RETURN_IF_ERROR(keep_input(self, &model->pairs[k], request));
  return identity_set_parameters(response);
}

TRITONSERVER_Error *identity_execute(const identity_instance *self,
                                     TRITONBACKEND_ModelInstance *instance,
                                     TRITONBACKEND_Request **requests, uint32_t count)
{
  backend_batch batch;
  BACKEND_RETURN_IF_ERROR(backend_batch_begin(&batch, instance, requests, count));
  if (self->model->execute_delay_ms > 0)
    identity_delay(self);
  uint64_t total_batch_size = 0;
  for (uint32_t i = 0; i < count; i++) {
    int64_t batch_size = 0;
    TRITONSERVER_Error *error = answer(self, requests[i], batch.responses[i], &batch_size);
    total_batch_size += batch_size > 0 ? (uint64_t)batch_size : 1;
    if (error != NULL)
      backend_batch_fail(&batch, i, error);
  }
  batch.compute_end_ns = clock_monotonic_ns();
  backend_batch_finish(&batch, total_batch_size);
  return NULL;
}
