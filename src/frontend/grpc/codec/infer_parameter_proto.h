// SPDX-License-Identifier: Apache-2.0
// Reads inference.InferParameter in maps, and the parameters of tensors that the server knows.
// Pure; any thread.
#ifndef NEREID_FRONTEND_GRPC_CODEC_INFER_PARAMETER_PROTO_H
#define NEREID_FRONTEND_GRPC_CODEC_INFER_PARAMETER_PROTO_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "frontend/common/json/infer_request_json.h"
#include "frontend/common/json/request_parameter.h"

#include <stdint.h>

// Fields of an entry of a map.
typedef enum map_entry_field {
  ENTRY_KEY = 1,
  ENTRY_VALUE = 2,
} map_entry_field;

// Fields of InferParameter.
typedef enum infer_parameter_field {
  BOOL_PARAM = 1,
  INT64_PARAM = 2,
  STRING_PARAM = 3,
  DOUBLE_PARAM = 4,
  UINT64_PARAM = 5,
} infer_parameter_field;

// Reads an entry of map<string, InferParameter>. Texts are in the arena.
error *infer_parameter_proto_read(slice entry, arena *a, request_parameter *p);

// A tensor's known parameters; name NULL: absent.
typedef struct tensor_parameters {
  request_parameter region, offset, byte_size, classification;
} tensor_parameters;

// Keeps a known parameter; the last of a name counts.
void tensor_parameters_record(tensor_parameters *t, const request_parameter *p);

// INVALID_ARG in Triton's words for invalid types and combinations.
error *tensor_parameters_shared_memory(const tensor_parameters *t, const char *tensor,
                                       json_shared_memory *memory);
error *tensor_parameters_classification(const tensor_parameters *t, uint64_t *classification);

#endif
