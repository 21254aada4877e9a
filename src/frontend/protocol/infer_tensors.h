// The tensors of one inference between a front end and the core: inputs as slices of its message or
// in the client's memory, outputs where they are sent from or in the client's memory. Shared by all
// front ends. Filled and read by the thread that has the inference; the allocator is called by
// whatever thread runs the model.
#ifndef NEREID_FRONTEND_PROTOCOL_INFER_TENSORS_H
#define NEREID_FRONTEND_PROTOCOL_INFER_TENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "frontend/protocol/budget.h"
#include "frontend/protocol/infer_request_json.h"
#include "frontend/protocol/infer_response_json.h"
#include "frontend/protocol/shared_memory.h"
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
  const shared_span *span; // where it goes; NULL: into the reply
} output_choice;

// An input that is copied out of the client's memory before the core sees it.
typedef struct shared_copy {
  void *to;
  const void *from;
  size_t size;
} shared_copy;

typedef struct infer_tensors {
  arena *arena; // of the inference, borrowed, as the next two
  byte_budget *budget;
  shared_memory *shared;
  TRITONSERVER_InferenceRequest *request; // borrowed
  void *owner;                            // what the arena is part of; each output refers to it
  void (*ref)(void *owner);               // any thread
  void (*unref)(void *owner);
  bool many_responses; // outputs come again and again, maybe from several threads
  bool packs;          // binary outputs are worked on before they are sent

  output_choice fallback; // for outputs that the request does not list
  output_choice *choices; // in the arena
  size_t choice_count;
  bool has_rows; // the first dimension of outputs is the batch; where they are classified

  shared_span *spans; // in the arena, in use until the core is done
  size_t span_count;
  shared_copy *copies; // in the arena, to be made
  size_t copy_count;
  size_t copy_bytes;
  size_t reserved; // from the budget, for copies and classes

  _Atomic size_t converted_bytes; // of outputs to be written as text, classified or packed
} infer_tensors;

// Takes on the request's lists. Errors: NOT_FOUND and INVALID_ARG for regions that are not there or
// too small, UNAVAILABLE when memory or budget is short, and what the core says.
error *infer_tensors_add(infer_tensors *t, TRITONSERVER_Server *server, const char *model_name,
                         int64_t model_version, const infer_json_input *inputs, size_t input_count,
                         const infer_json_output *outputs, size_t output_count);

// Makes the copies; any thread, one at a time. Before the core gets the request.
void infer_tensors_copy(infer_tensors *t);

// INVALID_ARG when a region was not all there.
error *infer_tensors_check(const infer_tensors *t);

// Nobody reads or writes the client's memory any more; may be called again.
void infer_tensors_release(infer_tensors *t);

// Gives back what is held beyond the arena.
void infer_tensors_fini(infer_tensors *t);

// The allocator for the outputs of any inference whose callback argument is an infer_tensors.
error *infer_tensors_make_allocator(TRITONSERVER_ResponseAllocator **allocator);

// Reads a response; lists and classes are in the arena `a`, the rest are views of the response. The
// response's own error is returned like any other.
error *infer_tensors_read(infer_tensors *t, TRITONSERVER_InferenceResponse *response, arena *a,
                          infer_response_json *json);

#endif
