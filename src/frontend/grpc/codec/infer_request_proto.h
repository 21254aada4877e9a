// SPDX-License-Identifier: Apache-2.0
// inference.ModelInferRequest, read without copying tensors. protobuf-c would copy them, and make
// much of little: see docs/grpc.md. Pure functions; any thread.
#ifndef NEREID_FRONTEND_GRPC_CODEC_INFER_REQUEST_PROTO_H
#define NEREID_FRONTEND_GRPC_CODEC_INFER_REQUEST_PROTO_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "frontend/common/json/infer_request_json.h"
#include "frontend/common/json/request_parameter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Texts are never NULL. Inputs and outputs are as HTTP has them, without parameters that mean
// nothing to the server. An input's data are views of the message where they can be, else in the
// arena; its datatype is TRITONSERVER_TYPE_INVALID for a name that is none, and its element_count
// is not set: the core checks both. Outputs are binary.
typedef struct infer_request_proto {
  const char *model_name;
  const char *model_version; // as the client wrote it: model_version_read
  const char *id;
  request_parameter *parameters; // each name once
  size_t parameter_count;
  bool empty_final_response; // triton_enable_empty_final_response
  infer_json_input *inputs;
  size_t input_count;
  infer_json_output *outputs;
  size_t output_count; // 0: all outputs
  size_t typed_size;   // bytes of the tensors that are in the arena
} infer_request_proto;

// Room for typed tensors, which can be eight times what they are in the message.
typedef struct typed_room {
  size_t most; // bytes of all together
  // Called with their sum before each is made; an error ends the reading. NULL: nobody counts.
  error *(*take)(void *context, size_t sum);
  void *context;
} typed_room;

// The model's name and version as far as the begin of a message has them, which clients write
// first; else empty. Views of it.
void infer_request_proto_peek(slice begin, slice *model_name, slice *model_version);

// Has the message more than `most` bytes to be read? Raw contents are not: they stay as they are.
bool infer_request_proto_is_long(slice message, size_t most);

// Reads a message, which must outlive the request. INVALID_ARG for what is not such a message, for
// what is over the limits of request_limits.h, and for tensors that are given twice, not at all or
// in another type (in Triton's words); UNAVAILABLE when memory is short; what `room` says. After an
// INVALID_ARG model_name, model_version and id are still valid texts.
error *infer_request_proto_read(slice message, const typed_room *room, arena *a,
                                infer_request_proto *out);

#endif
