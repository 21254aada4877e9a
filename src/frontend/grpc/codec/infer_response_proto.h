// SPDX-License-Identifier: Apache-2.0
// inference.ModelInferResponse and ModelStreamInferResponse, written without copying tensors. Pure
// functions; any thread.
#ifndef NEREID_FRONTEND_GRPC_CODEC_INFER_RESPONSE_PROTO_H
#define NEREID_FRONTEND_GRPC_CODEC_INFER_RESPONSE_PROTO_H

#include "frontend/common/json/infer_response_json.h"
#include "frontend/grpc/codec/message_parts.h"

// Whether a reply has the parameter triton_final_response, and its value.
typedef enum final_response {
  FINAL_RESPONSE_UNSAID,
  FINAL_RESPONSE_FALSE,
  FINAL_RESPONSE_TRUE,
} final_response;

// Writes a ModelInferResponse; message_parts_finish tells whether it is whole. Each output gets its
// raw_output_contents, an empty one where the form is RESPONSE_DATA_SHARED_MEMORY. The bytes of the
// outputs are borrowed until the message is sent. A version below 0 is left out.
void infer_response_proto_write(const infer_response_json *response, final_response final,
                                message_parts *out);

// Writes a ModelStreamInferResponse. `error_message` is "" where there is no error; with one,
// `response` says whose it is: id and model.
void infer_stream_response_proto_write(const infer_response_json *response, final_response final,
                                       const char *error_message, message_parts *out);

#endif
