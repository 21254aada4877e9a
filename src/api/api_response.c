// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_InferenceResponse*: a client reads an answer. A response belongs to one thread at a
// time.
#include "api/convert.h"
#include "nereid/nereid.h"
#include "request/response.h"
#include "triton/core/tritonbackend.h"

#include <assert.h>
#include <inttypes.h>

static response_output *output_at(const response *r, uint32_t index)
{
  response_output *output = r->outputs;
  uint32_t at = 0;
  for (; output != NULL && at < index; at++)
    output = output->next;
  assert((output != NULL) == (index < r->output_count));
  return output;
}

static error *no_such_output(const response *r, uint32_t index)
{
  return error_new(ERROR_INVALID_ARG,
                   "out of bounds index %" PRIu32 ": response has %" PRIu32 " outputs", index,
                   r->output_count);
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse *r)
{
  response_free(r);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseError(TRITONSERVER_InferenceResponse *r)
{
  const error *failure = r->failure;
  return failure == NULL
             ? NULL
             : error_to_abi(error_new(error_get_code(failure), "%s", error_message(failure)));
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseModel(TRITONSERVER_InferenceResponse *r,
                                                        const char **model_name,
                                                        int64_t *model_version)
{
  *model_name = r->factory->target->name;
  *model_version = r->factory->target->version;
  return NULL;
}

API_GET(TRITONSERVER_InferenceResponseId, TRITONSERVER_InferenceResponse, const char *,
        self->factory->id)
API_GET(TRITONSERVER_InferenceResponseParameterCount, TRITONSERVER_InferenceResponse, uint32_t,
        self->parameter_count)

TRITONSERVER_Error *TRITONSERVER_InferenceResponseParameter(TRITONSERVER_InferenceResponse *r,
                                                            uint32_t index, const char **name,
                                                            TRITONSERVER_ParameterType *type,
                                                            const void **value)
{
  if (index >= r->parameter_count)
    return error_to_abi(error_new(
        ERROR_INVALID_ARG, "out of bounds index %" PRIu32 ": response has %" PRIu32 " parameters",
        index, r->parameter_count));
  const parameter *p = &r->parameters[index];
  *name = p->name;
  *type = p->type;
  *value = parameter_value(p);
  return NULL;
}

API_GET(TRITONSERVER_InferenceResponseOutputCount, TRITONSERVER_InferenceResponse, uint32_t,
        self->output_count)

TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutput(TRITONSERVER_InferenceResponse *r,
                                                         uint32_t index, const char **name,
                                                         TRITONSERVER_DataType *type,
                                                         const int64_t **shape, uint64_t *dim_count,
                                                         const void **base, size_t *byte_size,
                                                         TRITONSERVER_MemoryType *memory_type,
                                                         int64_t *memory_type_id, void **context)
{
  const response_output *output = output_at(r, index);
  if (output == NULL)
    return error_to_abi(no_such_output(r, index));
  *name = output->name.data;
  *type = output->datatype;
  *shape = output->dims;
  *dim_count = output->dim_count;
  *base = output->buffer;
  *byte_size = output->attributes.byte_size;
  *memory_type = output->attributes.memory_type;
  *memory_type_id = output->attributes.memory_type_id;
  *context = output->buffer_context;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutputClassificationLabel(
    TRITONSERVER_InferenceResponse *r, const uint32_t index, const size_t class_index,
    const char **label)
{
  const response_output *output = output_at(r, index);
  if (output == NULL)
    return error_to_abi(no_such_output(r, index));
  const tensor_signature *t = signature_find_output(&r->factory->target->signature, output->name);
  bool named = t != NULL && class_index < t->label_count && t->labels[class_index][0] != '\0';
  *label = named ? t->labels[class_index] : NULL;
  return NULL;
}

void NEREID_InferenceResponseTimes(TRITONSERVER_InferenceResponse *r, NEREID_ResponseTimes *times)
{
  const response_factory *f = r->factory;
  *times = (NEREID_ResponseTimes){
      .submitted_ns = f->start_ns, .started_ns = f->executed_ns, .batch_size = f->executed_rows};
}

TRITONSERVER_Error *TRITONBACKEND_InferenceResponseOutput(TRITONBACKEND_Response *r, uint32_t index,
                                                          const char **name,
                                                          TRITONSERVER_DataType *type,
                                                          const int64_t **shape,
                                                          uint64_t *dim_count)
{
  const response_output *output = output_at((response *)r, index);
  if (output == NULL)
    return error_to_abi(no_such_output((response *)r, index));
  *name = output->name.data;
  *type = output->datatype;
  *shape = output->dims;
  *dim_count = output->dim_count;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InferenceResponseOutputByName(TRITONBACKEND_Response *r,
                                                                const char *name,
                                                                TRITONSERVER_DataType *type,
                                                                const int64_t **shape,
                                                                uint64_t *dim_count)
{
  for (const response_output *output = ((response *)r)->outputs; output != NULL;
       output = output->next) {
    if (!slice_equal_text(output->name, name))
      continue;
    *type = output->datatype;
    *shape = output->dims;
    *dim_count = output->dim_count;
    return NULL;
  }
  return error_to_abi(error_new(ERROR_NOT_FOUND, "response has no output '%s'", name));
}
