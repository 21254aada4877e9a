// SPDX-License-Identifier: Apache-2.0
// The copies of one execution of an instance on a GPU: inputs to the device, outputs from there to
// wherever the server wants them, all on the device's stream, with one event at the end. Host
// memory that is not pinned goes through pinned memory, one copy for all pieces that lie side by
// side on the device. What goes wrong is kept until the stream is through and fails the request
// that it is of, by the tensor's name. Made at load, used again by each execution. Used on the
// instance's thread.
#ifndef NEREID_BACKEND_TRANSFER_H
#define NEREID_BACKEND_TRANSFER_H

#include "backend_batch.h"
#include "backend_device.h"
#include "backend_tensor.h"

typedef struct backend_transfer backend_transfer;

TRITONSERVER_Error *backend_transfer_new(backend_device *device, backend_transfer **transfer);
void backend_transfer_free(backend_transfer *self); // nothing is under way; NULL is allowed

// The copies from now on are those of `batch`, which must live until backend_transfer_end has said
// that it is over.
void backend_transfer_begin(backend_transfer *self, backend_batch *batch);

// Memory on the device until the end.
TRITONSERVER_Error *backend_transfer_take(backend_transfer *self, size_t bytes, void **memory);

// Zeros on the device, likewise.
TRITONSERVER_Error *backend_transfer_zeros(backend_transfer *self, size_t bytes,
                                           const void **zeros);

// The inputs of all requests one after the other on the device, as backend_gather does it on the
// host: `*data` is complete when the stream gets there. No copy when there is one, in one piece
// that is on this device and aligned. What a failed request should have brought is zeros.
TRITONSERVER_Error *backend_transfer_gather(backend_transfer *self, const backend_input *inputs,
                                            size_t alignment, const void **data, size_t *byte_size);

// Adds an output to a request's response, asks the server for memory on the device, and has `from`
// (on the device) copied to what the server gives.
void backend_transfer_output(backend_transfer *self, uint32_t request, const char *name,
                             TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t rank,
                             const void *from, size_t byte_size);
// The same for the next state of the request's sequence, which is updated at the end.
void backend_transfer_state(backend_transfer *self, uint32_t request, const char *name,
                            TRITONSERVER_DataType datatype, const int64_t *dims, uint32_t rank,
                            const void *from, size_t byte_size);

// One copy. Between places on the host it is done at once; else the memory must stay as it is until
// the end. The names of tensors must, too.
void backend_transfer_copy(backend_transfer *self, uint32_t request, void *to, gpu_place to_place,
                           const void *from, gpu_place from_place, size_t bytes, const char *name);

// The request is to be answered with this error, which is taken, at the end.
void backend_transfer_fail(backend_transfer *self, uint32_t request,
                           TRITONSERVER_Error *error_owned);
void backend_transfer_fail_all(backend_transfer *self, TRITONSERVER_Error *error_owned);

// Somebody else (a framework) has put work on the device's stream that the end is to come after.
void backend_transfer_expect(backend_transfer *self);

// Nothing more is to come.
void backend_transfer_close(backend_transfer *self);

// Waits up to `timeout_us` (negative: for ever) until the stream is through. True: it is over, the
// outputs that have not failed are there, the requests that have failed are answered, the memory is
// given back.
bool backend_transfer_end(backend_transfer *self, int64_t timeout_us);

#endif
