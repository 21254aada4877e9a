// SPDX-License-Identifier: Apache-2.0
// The tensors of one inference. Inputs are slices of the message or in the client's memory; outputs
// are in memory from which they are sent, or in the client's memory. For all front ends. The thread
// that has the inference fills and reads this; any thread that runs the model calls the allocator.
// A backend uses the client's memory directly, except where the client could harm others with it.
// Order of calls: add, make_copies, the inference, read, give_back_spans.
#ifndef NEREID_FRONTEND_COMMON_TENSOR_INFER_TENSORS_H
#define NEREID_FRONTEND_COMMON_TENSOR_INFER_TENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "frontend/common/json/infer_request_json.h"
#include "frontend/common/json/infer_response_json.h"
#include "frontend/common/net/budget.h"
#include "frontend/common/tensor/shared_memory.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Where and how one output is sent.
typedef struct output_choice {
  const char *name; // NULL: any output that the request does not list
  bool binary;
  uint64_t classification; // number of classes; 0: the tensor itself
  shared_span *span;       // in the client's memory; NULL: into the reply
} output_choice;

typedef struct infer_tensors {
  arena *arena; // the inference's; borrowed, as the next two
  byte_budget *budget;
  shared_memory *memory;
  TRITONSERVER_InferenceRequest *request; // borrowed, as `server`; set by inference_make_request
  TRITONSERVER_Server *server;
  void *owner;              // the object with the arena; each output refers to it
  void (*ref)(void *owner); // any thread
  void (*unref)(void *owner);
  bool many_responses; // outputs come repeatedly, maybe from several threads
  slice pinned;        // the message if it is in pinned memory, else empty
  bool packs;          // binary outputs are compressed before they are sent

  output_choice fallback; // for outputs that the request does not list
  output_choice *choices; // in the arena
  size_t choice_count;
  bool has_rows; // the first dimension of outputs is the batch; set if any output is classified

  shared_span *spans; // in the client's memory, in order of outputs, then inputs; the array is in
                      // the arena
  size_t span_count;
  bool uses_gpu;     // some spans are in GPU memory
  size_t copy_bytes; // sum of the spans that are copied
  size_t reserved;   // bytes from the budget, for copies and classes

  _Atomic size_t converted_bytes; // of outputs that are printed as text, classified or compressed
} infer_tensors;

// Adds the request's inputs and outputs to the core's request. Errors: NOT_FOUND and INVALID_ARG
// for regions that are absent or too small, UNAVAILABLE when memory or budget is short, and the
// core's own.
error *infer_tensors_add(infer_tensors *t, const char *model_name, int64_t model_version,
                         const infer_json_input *inputs, size_t input_count,
                         const infer_json_output *outputs, size_t output_count);

// Counts inputs that the front end makes in the arena, before they are added; `sum` is the total so
// far. UNAVAILABLE when the budget is short.
error *infer_tensors_reserve(infer_tensors *t, size_t sum);

// Bytes of all spans; saturates.
size_t infer_tensors_shared_bytes(const infer_tensors *t);

// Bytes to copy, by which the caller decides whether a loop makes the copies. SIZE_MAX when a GPU
// is involved.
size_t infer_tensors_copy_work(const infer_tensors *t);
// Copies the inputs that the model must not see in the client's memory. Before the request is
// submitted; any thread, or a JOB_DRIVER thread when a GPU is involved. Errors: the driver fails to
// copy.
error *infer_tensors_make_copies(infer_tensors *t);

// The client's memory is not used any more. Idempotent.
void infer_tensors_give_back_spans(infer_tensors *t);

// Gives back all that is not in the arena. Idempotent.
void infer_tensors_fini(infer_tensors *t);

// Makes an allocator for inferences whose callback argument is their infer_tensors.
error *infer_tensors_make_allocator(TRITONSERVER_ResponseAllocator **allocator);

// Reads a response, once the client's memory is no longer written. Lists and classes are in the
// arena `a`, the rest are views of the response. The response's own error is returned like any
// other.
error *infer_tensors_read(infer_tensors *t, TRITONSERVER_InferenceResponse *response, arena *a,
                          infer_response_json *json);

#endif
