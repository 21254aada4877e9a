// SPDX-License-Identifier: Apache-2.0
// Writes inference.ModelInferResponse and ModelStreamInferResponse without copying tensors. Pure
// functions; any thread.
#ifndef NEREID_FRONTEND_GRPC_CODEC_INFER_RESPONSE_PROTO_H
#define NEREID_FRONTEND_GRPC_CODEC_INFER_RESPONSE_PROTO_H

#include "frontend/common/json/infer_response_json.h"
#include "frontend/grpc/codec/message_parts.h"

// The parameter triton_final_response of a reply, if it has one.
typedef enum final_response {
  FINAL_RESPONSE_UNSAID,
  FINAL_RESPONSE_FALSE,
  FINAL_RESPONSE_TRUE,
} final_response;

// Writes a ModelInferResponse; message_parts_finish tells whether memory sufficed. Each output has
// raw_output_contents, which are empty for RESPONSE_DATA_SHARED_MEMORY. The outputs' bytes are
// borrowed until the message is sent. A version below 0 is omitted.
void infer_response_proto_write(const infer_response_json *response, final_response final,
                                message_parts *out);

// Writes a ModelStreamInferResponse. `error_message` is "" if there is no error; with an error,
// `response` has only id and model of the request.
void infer_stream_response_proto_write(const infer_response_json *response, final_response final,
                                       const char *error_message, message_parts *out);

#endif
