// SPDX-License-Identifier: Apache-2.0
// The tensors of one inference between a front end and the core: inputs as slices of its message or
// in the client's memory, outputs where they are sent from or in the client's memory. Shared by all
// front ends. Filled and read by the thread that has the inference; the allocator is called by
// whatever thread runs the model. A backend reads and writes the client's memory itself, except
// where a client could harm others with it. Order of calls: add, make_copies, the inference, read,
// give_back_spans.
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

// How one output goes out.
typedef struct output_choice {
  const char *name; // NULL: any output that the request does not list
  bool binary;
  uint64_t classification; // how many classes; 0: the tensor itself
  shared_span *span;       // where it goes; NULL: into the reply
} output_choice;

typedef struct infer_tensors {
  arena *arena; // of the inference, borrowed, as the next two
  byte_budget *budget;
  shared_memory *memory;
  TRITONSERVER_InferenceRequest *request; // borrowed, as who made it; inference_make_request
  TRITONSERVER_Server *server;
  void *owner;              // what the arena is part of; each output refers to it
  void (*ref)(void *owner); // any thread
  void (*unref)(void *owner);
  bool many_responses; // outputs come again and again, maybe from several threads
  slice pinned;        // the message, where it is in pinned memory; else empty
  bool packs;          // binary outputs are worked on before they are sent

  output_choice fallback; // for outputs that the request does not list
  output_choice *choices; // in the arena
  size_t choice_count;
  bool has_rows; // the first dimension of outputs is the batch; where they are classified

  shared_span *spans; // in the client's memory, outputs first; in the arena
  size_t span_count;
  bool uses_gpu;     // some of them are in memory of a GPU
  size_t copy_bytes; // of those that are copied
  size_t reserved;   // from the budget, for copies and classes

  _Atomic size_t converted_bytes; // of outputs to be written as text, classified or packed
} infer_tensors;

// Takes on the request's lists. Errors: NOT_FOUND and INVALID_ARG for regions that are not there or
// too small, UNAVAILABLE when memory or budget is short, and what the core says.
error *infer_tensors_add(infer_tensors *t, const char *model_name, int64_t model_version,
                         const infer_json_input *inputs, size_t input_count,
                         const infer_json_output *outputs, size_t output_count);

// Counts what the front end makes of inputs in the arena before they are added: `sum` bytes so far.
// UNAVAILABLE when the budget is short.
error *infer_tensors_reserve(infer_tensors *t, size_t sum);

// Bytes in the client's memory; saturates.
size_t infer_tensors_shared_bytes(const infer_tensors *t);

// How many bytes of work these copies are: for who decides whether a loop makes them. SIZE_MAX when
// a GPU has to be asked.
size_t infer_tensors_copy_work(const infer_tensors *t);
// Copies what the model must not see in the client's memory, copy_bytes. Before the request is
// submitted; any thread, unless a GPU has to be asked. Errors: a copy from there fails.
error *infer_tensors_make_copies(infer_tensors *t);

// Nobody reads or writes the client's memory any more. May be called again.
void infer_tensors_give_back_spans(infer_tensors *t);

// Gives back what is held beyond the arena; may be called again.
void infer_tensors_fini(infer_tensors *t);

// The allocator for the outputs of any inference whose callback argument is an infer_tensors.
error *infer_tensors_make_allocator(TRITONSERVER_ResponseAllocator **allocator);

// Reads a response, when nobody writes to the client's memory any more; lists and classes are in
// the arena `a`, the rest are views of the response. The response's own error is returned like any
// other.
error *infer_tensors_read(infer_tensors *t, TRITONSERVER_InferenceResponse *response, arena *a,
                          infer_response_json *json);

#endif
