// SPDX-License-Identifier: Apache-2.0
// Reads inference.ModelInferRequest without copying tensors; docs/grpc.md says why not by
// protobuf-c. Pure functions; any thread.
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

// Texts are never NULL. Inputs and outputs have the structs of HTTP, without parameters that the
// server does not know. An input's data is a view of the message if possible, else in the arena.
// The core checks its datatype (TRITONSERVER_TYPE_INVALID if unknown) and its size; element_count
// is not set. Outputs are binary.
typedef struct infer_request_proto {
  const char *model_name;
  const char *model_version; // as the client wrote it; see model_version_read
  const char *id;
  request_parameter *parameters; // each name once
  size_t parameter_count;
  bool empty_final_response; // triton_enable_empty_final_response
  infer_json_input *inputs;
  size_t input_count;
  infer_json_output *outputs;
  size_t output_count; // 0: all outputs
  size_t typed_size;   // bytes of tensors in the arena
} infer_request_proto;

// A limit for typed tensors, which can be eight times as large as in the message.
typedef struct typed_room {
  size_t most; // bytes of all together
  // Called with the sum before each is made; an error ends the reading. NULL: not called.
  error *(*take)(void *context, size_t sum);
  void *context;
} typed_room;

// Reads the model's name and version from the first bytes of a message, where clients write them;
// else they are empty. Views of `begin`.
void infer_request_proto_peek(slice begin, slice *model_name, slice *model_version);

// Are there more than `most` bytes to read? Raw contents do not count, because they stay in place.
bool infer_request_proto_is_long(slice message, size_t most);

// Reads a message, which must outlive the request. INVALID_ARG for malformed messages, beyond the
// limits of request_limits.h, and for tensors given twice, not at all or in another type (in
// Triton's words); UNAVAILABLE when memory is short; errors of `room`. After INVALID_ARG
// model_name, model_version and id are still valid texts.
error *infer_request_proto_read(slice message, const typed_room *room, arena *a,
                                infer_request_proto *out);

#endif
