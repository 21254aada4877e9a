// Tensor data between requests, the backend's own buffers and responses. Everything is CPU memory:
// GPU memory is refused by name. Used on the instance's thread.
#ifndef NEREID_BACKEND_TENSOR_H
#define NEREID_BACKEND_TENSOR_H

#include "backend_batch.h"
#include "backend_shape.h"

// A buffer that is kept from one execution to the next. Zero-initialised is empty.
typedef struct backend_buffer {
  void *data; // aligned to 64 bytes
  size_t capacity;
} backend_buffer;

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

// Copies all pieces to `destination`, which holds input->byte_size bytes.
TRITONSERVER_Error *backend_input_copy(const backend_input *input, void *destination);

// The inputs of all requests one after the other (`inputs` has an entry for each request; those
// whose `input` is NULL are left out). No copy when there is one, in one piece that is aligned;
// else they are copied to `buffer`. A request whose data cannot be read fails alone: its place
// holds zeros. An error means that nothing could be gathered.
TRITONSERVER_Error *backend_gather(backend_batch *batch, const backend_input *inputs,
                                   size_t alignment, backend_buffer *buffer, const void **data,
                                   size_t *byte_size);

// Adds an output to a response and gets its memory for `byte_size` bytes.
TRITONSERVER_Error *backend_output_new(TRITONBACKEND_Response *response, const char *name,
                                       TRITONSERVER_DataType datatype, const int64_t *dims,
                                       uint32_t rank, size_t byte_size, void **data);

// An output that the configuration does not have is left out: tells the server so. An error, which
// the response is to have, where the model's outputs are strict.
TRITONSERVER_Error *backend_output_leave_out(TRITONBACKEND_Response *response, const char *name);

// Which of the `name_count` outputs does the request want? Names that are not in the list are
// passed over.
TRITONSERVER_Error *backend_outputs_wanted(TRITONBACKEND_Request *request, const char *const *names,
                                           size_t name_count, bool *wanted);

#endif
