// SPDX-License-Identifier: Apache-2.0
// The copies of one execution of an instance on a GPU: inputs to the device, and outputs to
// wherever the server wants them. All run on the device's stream, with one event at the end. Host
// memory that is not pinned goes through pinned memory, one copy for all pieces that are adjacent
// on the device. An error is kept until the stream has finished; then it fails its request, with
// the tensor's name. Made at load, reused by each execution. Used on the instance's thread.
#ifndef NEREID_BACKEND_TRANSFER_H
#define NEREID_BACKEND_TRANSFER_H

#include "backend_batch.h"
#include "backend_device.h"
#include "backend_tensor.h"

typedef struct backend_transfer backend_transfer;

TRITONSERVER_Error *backend_transfer_new(backend_device *device, backend_transfer **transfer);
void backend_transfer_free(backend_transfer *self); // no copy may be under way; NULL is allowed

// Begins the copies of `batch`, which must live until backend_transfer_end returns true.
void backend_transfer_begin(backend_transfer *self, backend_batch *batch);

// Memory on the device, until backend_transfer_end.
TRITONSERVER_Error *backend_transfer_take(backend_transfer *self, size_t bytes, void **memory);

// Zeros on the device, until backend_transfer_end.
TRITONSERVER_Error *backend_transfer_zeros(backend_transfer *self, size_t bytes,
                                           const void **zeros);

// The inputs of all requests one after another on the device, as backend_gather on the host.
// `*data` is complete when the stream reaches later work. A single input in one aligned piece on
// this device is not copied. The part of a failed request holds zeros.
TRITONSERVER_Error *backend_transfer_gather(backend_transfer *self, const backend_input *inputs,
                                            size_t alignment, const void **data, size_t *byte_size);

// Adds an output to a request's response, asks the server for memory on the device, and copies
// `from` (on the device) to the memory that the server gives.
void backend_transfer_output(backend_transfer *self, uint32_t request, const char *name,
                             TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t rank,
                             const void *from, size_t byte_size);
// The same for the next state of the request's sequence, which is updated at the end.
void backend_transfer_state(backend_transfer *self, uint32_t request, const char *name,
                            TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t rank,
                            const void *from, size_t byte_size);

// One copy. Between places on the host it is done at once; otherwise the memory must stay unchanged
// until the end. The names of tensors must live until then too.
void backend_transfer_copy(backend_transfer *self, uint32_t request, void *to, gpu_place to_place,
                           const void *from, gpu_place from_place, size_t bytes, const char *name);

// Answers the request with this error, which is taken, at the end.
void backend_transfer_fail(backend_transfer *self, uint32_t request,
                           TRITONSERVER_Error *error_owned);
void backend_transfer_fail_all(backend_transfer *self, TRITONSERVER_Error *error_owned);

// Call it when other code (a framework) has put work on the device's stream: the end then waits for
// that work.
void backend_transfer_expect(backend_transfer *self);

// No copies follow.
void backend_transfer_close(backend_transfer *self);

// Waits up to `timeout_us` (negative: for ever) for the stream. True: all work is over, the outputs
// are written, failed requests are answered, and the memory is given back.
bool backend_transfer_end(backend_transfer *self, int64_t timeout_us);

#endif
