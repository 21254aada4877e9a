// The tensors of one request that lie in the client's memory: which spans it holds, which inputs
// are copied, and when the memory is the client's again. A value in the front end's request object;
// its lists are in that one's arena. One thread at a time.
//
// A backend reads and writes the client's memory itself, except where a client could harm others
// with it: see shared_tensors.c. Order of calls: init, outputs, inputs, make_copies, the inference,
// check, release.
#ifndef NEREID_FRONTEND_COMMON_TENSOR_SHARED_TENSORS_H
#define NEREID_FRONTEND_COMMON_TENSOR_SHARED_TENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "frontend/common/tensor/shared_memory.h"

typedef struct shared_copy {
  void *to;
  const void *from;
  size_t size;
} shared_copy;

typedef struct shared_tensors {
  shared_memory *memory; // the registry; borrowed
  shared_span *spans;    // outputs first
  size_t span_count;
  size_t output_count;
  shared_copy *copies; // to be made
  size_t copy_count;
  size_t copy_bytes;
} shared_tensors;

// For at most `capacity` tensors; 0 needs no memory.
error *shared_tensors_init(shared_tensors *t, shared_memory *memory, size_t capacity, arena *a);

// Takes the span of an output, for the response allocator. Errors as shared_memory_take.
error *shared_tensors_take_output(shared_tensors *t, const char *region, uint64_t offset,
                                  uint64_t byte_size, const shared_span **span);

// The same for an input, after all outputs. *copied: the model must not see this memory; it gets
// what shared_tensors_copy gives.
error *shared_tensors_take_input(shared_tensors *t, TRITONSERVER_DataType datatype,
                                 const char *region, uint64_t offset, uint64_t byte_size,
                                 const shared_span **span, bool *copied);

// Memory in the arena, aligned to 64, that shared_tensors_make_copies fills; NULL when memory is
// short. What it counts against a limit, the caller has asked before.
void *shared_tensors_copy(shared_tensors *t, const shared_span *span, arena *a);

// Before the request is submitted, on any thread; copy_bytes says how much it is.
void shared_tensors_make_copies(shared_tensors *t);

// Once the backend has answered and released the request: INVALID_ARG when a region was not all
// there, so that the answer is worth nothing.
error *shared_tensors_check(const shared_tensors *t);

// Nobody reads or writes the memory any more. May be called again.
void shared_tensors_release(shared_tensors *t);

#endif
