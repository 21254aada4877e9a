// SPDX-License-Identifier: Apache-2.0
// Tensor data between requests, the backend's own buffers and responses, for who computes on the
// host: what the server has on a GPU is copied from and to there, which waits for the copy; what
// fails says the tensor's name. Instances on GPUs: backend_transfer.h. Used on the instance's
// thread.
#ifndef NEREID_BACKEND_TENSOR_H
#define NEREID_BACKEND_TENSOR_H

#include "backend_batch.h"
#include "backend_shape.h"
#include "gpu/copy.h"

// A buffer that is kept from one execution to the next. Zero-initialised is empty.
typedef struct backend_buffer {
  void *data; // aligned to 64 bytes
  size_t capacity;
} backend_buffer;

// Makes room for `size` bytes of input; the old contents are gone.
TRITONSERVER_Error *backend_buffer_reserve(backend_buffer *buffer, size_t size);

// Gives the memory back when there is more than `keep` of it.
void backend_buffer_trim(backend_buffer *buffer, size_t keep);

void backend_buffer_fini(backend_buffer *buffer);

// One input of one request; pointers belong to the request. `input` is NULL when the request does
// not have it.
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

// Looks up input `name`, as instances with `host_policy` (which is borrowed) are to read it, and
// checks that its size is that of its shape.
TRITONSERVER_Error *backend_input_find(TRITONBACKEND_Request *request, const char *name,
                                       const char *host_policy, backend_input *input);

// Memory to be filled, such as a server gives for an output or a state.
typedef struct backend_room {
  void *data;
  gpu_place place;
} backend_room;

// One of the pieces that an input's data is in, where it is.
typedef struct backend_piece {
  const void *data;
  uint64_t byte_size;
  gpu_place place;
} backend_piece;

// Piece `index`, when those before it had `before` bytes. INVALID_ARG when the pieces together have
// more than the input.
TRITONSERVER_Error *backend_input_piece(const backend_input *input, uint32_t index, uint64_t before,
                                        backend_piece *piece);
// An error unless the pieces had `copied` bytes together.
TRITONSERVER_Error *backend_input_complete(const backend_input *input, uint64_t copied);

// Copies all pieces to `destination`, which holds input->byte_size bytes: host memory, or wherever.
TRITONSERVER_Error *backend_input_copy(const backend_input *input, void *destination);
TRITONSERVER_Error *backend_input_copy_to(const backend_input *input, backend_room destination);

// How many requests have the input (see backend_gather), which is the first, and how many bytes are
// there?
uint32_t backend_inputs_measure(const backend_batch *batch, const backend_input *inputs,
                                uint32_t *first, size_t *byte_size);

// The inputs of all requests one after the other (`inputs` has an entry for each request; those
// whose `input` is NULL are left out). No copy when there is one, in one piece that is aligned;
// else they are copied to `buffer`. A request whose data cannot be read fails alone: its place
// holds zeros. An error means that nothing could be gathered.
TRITONSERVER_Error *backend_gather(backend_batch *batch, const backend_input *inputs,
                                   size_t alignment, backend_buffer *buffer, const void **data,
                                   size_t *byte_size);

// Adds an output to a response and gets its memory for `byte_size` bytes: `preferred` is asked for,
// and anything may be given. The same for the next state `name` of the request's sequence.
TRITONSERVER_Error *backend_output_ask(TRITONBACKEND_Response *response, const char *name,
                                       TRITONSERVER_DataType datatype, const int64_t *dims,
                                       uint32_t rank, size_t byte_size, gpu_place preferred,
                                       backend_room *room);
TRITONSERVER_Error *backend_state_ask(TRITONBACKEND_Request *request, const char *name,
                                      TRITONSERVER_DataType datatype, const int64_t *dims,
                                      uint32_t rank, size_t byte_size, gpu_place preferred,
                                      TRITONBACKEND_State **state, backend_room *room);

// An output or a state that is written on the host. Zero-initialised is none.
typedef struct backend_output {
  void *data; // where to write it
  size_t byte_size;
  const char *name;
  backend_room room; // is `data`, or memory of a GPU
} backend_output;

// Each one that was opened is closed once, or dropped. The name must live until then.
TRITONSERVER_Error *backend_output_open(TRITONBACKEND_Response *response, const char *name,
                                        TRITONSERVER_DataType datatype, const int64_t *dims,
                                        uint32_t rank, size_t byte_size, backend_output *output);
// As an output; TRITONBACKEND_StateUpdate makes it the next state once it is closed.
TRITONSERVER_Error *backend_state_open(TRITONBACKEND_Request *request, const char *name,
                                       TRITONSERVER_DataType datatype, const int64_t *dims,
                                       uint32_t rank, size_t byte_size, TRITONBACKEND_State **state,
                                       backend_output *output);
// It is written: brings it to where the server wants it.
TRITONSERVER_Error *backend_output_close(backend_output *output);
// It is not going to be; does nothing when it was closed.
void backend_output_drop(backend_output *output);

// An output that the configuration does not have is left out: tells the server so. An error, which
// the response is to have, where the model's outputs are strict.
TRITONSERVER_Error *backend_output_leave_out(TRITONBACKEND_Response *response, const char *name);

// Which of the `name_count` outputs does the request want? Names that are not in the list are
// passed over.
TRITONSERVER_Error *backend_outputs_wanted(TRITONBACKEND_Request *request, const char *const *names,
                                           size_t name_count, bool *wanted);

#endif
