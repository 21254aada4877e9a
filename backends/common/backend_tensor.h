// SPDX-License-Identifier: Apache-2.0
// Copies tensors between requests, the backend's buffers and responses, for backends that compute
// on the host. Data on a GPU is copied there and back, and the thread waits for the copy. Errors
// name the tensor. For instances on GPUs see backend_transfer.h. Used on the instance's thread.
#ifndef NEREID_BACKEND_TENSOR_H
#define NEREID_BACKEND_TENSOR_H

#include "backend_batch.h"
#include "backend_shape.h"
#include "gpu/copy.h"

// A buffer that is kept from one execution to the next. Zero-initialised: empty.
typedef struct backend_buffer {
  void *data; // aligned to 64 bytes
  size_t capacity;
} backend_buffer;

// Makes room for `size` bytes and drops the old contents.
TRITONSERVER_Error *backend_buffer_reserve(backend_buffer *buffer, size_t size);

// Frees the memory when it is more than `keep` bytes.
void backend_buffer_trim(backend_buffer *buffer, size_t keep);

void backend_buffer_fini(backend_buffer *buffer);

// One input of one request; pointers belong to the request. `input` is NULL when the request does
// not have this input.
typedef struct backend_input {
  TRITONBACKEND_Input *input;
  const char *name;
  TRITONSERVER_DataType datatype;
  const int64_t *dims;
  uint32_t rank;
  size_t element_count;
  uint64_t byte_size;
  uint32_t buffer_count;
  const char *host_policy; // of the instance
} backend_input;

// Finds input `name` as instances with `host_policy` (borrowed) read it, and checks its size
// against its shape.
TRITONSERVER_Error *backend_input_find(TRITONBACKEND_Request *request, const char *name,
                                       const char *host_policy, backend_input *input);

// Memory to write to, given by the server for an output or a state.
typedef struct backend_room {
  void *data;
  gpu_place place;
} backend_room;

// One piece of an input's data, and its place.
typedef struct backend_piece {
  const void *data;
  uint64_t byte_size;
  gpu_place place;
} backend_piece;

// Piece `index`, where the pieces before it have `before` bytes. INVALID_ARG when the pieces
// together exceed the input.
TRITONSERVER_Error *backend_input_piece(const backend_input *input, uint32_t index, uint64_t before,
                                        backend_piece *piece);
// An error unless `copied`, the bytes of all pieces, is the input's size.
TRITONSERVER_Error *backend_input_complete(const backend_input *input, uint64_t copied);

// Copies all pieces to `destination`, which holds input->byte_size bytes: on the host, or anywhere.
TRITONSERVER_Error *backend_input_copy(const backend_input *input, void *destination);
TRITONSERVER_Error *backend_input_copy_to(const backend_input *input, backend_room destination);

// Returns how many requests have the input. *first: the first of them; *byte_size: the bytes of
// all.
uint32_t backend_inputs_measure(const backend_batch *batch, const backend_input *inputs,
                                uint32_t *first, size_t *byte_size);

// The inputs of all requests one after another (`inputs` has an entry for each request; entries
// whose `input` is NULL are left out). A single input in one aligned piece is not copied; else all
// are copied to `buffer`. A request whose data cannot be read fails alone, and its place holds
// zeros. An error means that nothing could be gathered.
TRITONSERVER_Error *backend_gather(backend_batch *batch, const backend_input *inputs,
                                   size_t alignment, backend_buffer *buffer, const void **data,
                                   size_t *byte_size);

// Adds an output to a response and gets `byte_size` bytes for it. The server may give memory
// elsewhere than `preferred`. The second does the same for the next state `name` of the request's
// sequence.
TRITONSERVER_Error *backend_output_ask(TRITONBACKEND_Response *response, const char *name,
                                       TRITONSERVER_DataType datatype, const int64_t *dims,
                                       uint32_t rank, size_t byte_size, gpu_place preferred,
                                       backend_room *room);
TRITONSERVER_Error *backend_state_ask(TRITONBACKEND_Request *request, const char *name,
                                      TRITONSERVER_DataType datatype, const int64_t *dims,
                                      uint32_t rank, size_t byte_size, gpu_place preferred,
                                      TRITONBACKEND_State **state, backend_room *room);

// An output or a state that is written on the host. Zero-initialised: none.
typedef struct backend_output {
  void *data; // where to write it
  size_t byte_size;
  const char *name;
  backend_room room; // `data` itself, or memory of a GPU
} backend_output;

// Close or drop each opened output once. The name must live until then.
TRITONSERVER_Error *backend_output_open(TRITONBACKEND_Response *response, const char *name,
                                        TRITONSERVER_DataType datatype, const int64_t *dims,
                                        uint32_t rank, size_t byte_size, backend_output *output);
// As an output; after closing it, TRITONBACKEND_StateUpdate makes it the next state.
TRITONSERVER_Error *backend_state_open(TRITONBACKEND_Request *request, const char *name,
                                       TRITONSERVER_DataType datatype, const int64_t *dims,
                                       uint32_t rank, size_t byte_size, TRITONBACKEND_State **state,
                                       backend_output *output);
// Call it when the data is written: copies it to where the server wants it.
TRITONSERVER_Error *backend_output_close(backend_output *output);
// Frees an output that will not be written; does nothing after close.
void backend_output_drop(backend_output *output);

// Tells the server that an output missing in the configuration is left out. Returns an error for
// the response where the model's outputs are strict.
TRITONSERVER_Error *backend_output_leave_out(TRITONBACKEND_Response *response, const char *name);

// Sets `wanted` for the outputs that the request asks for. Requested names that are not in the list
// are ignored.
TRITONSERVER_Error *backend_outputs_wanted(TRITONBACKEND_Request *request, const char *const *names,
                                           size_t name_count, bool *wanted);

#endif
