// SPDX-License-Identifier: Apache-2.0
// The memory regions that clients share with the server, by name: one registry for all front ends.
// A request takes a span of a region and keeps the region mapped until it gives it back; a region
// that is unregistered meanwhile goes with its last user. Thread-safe; one lock, held for look-ups,
// guards all of it.
//
// A region belongs to its client, who may write to it and make it smaller at any time. Reading and
// writing a span is safe all the same (memory_guard.h); whether all of it was there, the region
// tells afterwards. What is read twice may differ. Memory of a GPU is for whoever asks the driver:
// copies from it and to it fail when something is wrong.
#ifndef NEREID_FRONTEND_COMMON_TENSOR_SHARED_MEMORY_H
#define NEREID_FRONTEND_COMMON_TENSOR_SHARED_MEMORY_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "frontend/common/net/jobs.h"
#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED_MEMORY_MAX_REGIONS    4096
#define SHARED_MEMORY_MAX_BYTES      ((uint64_t)16 << 40) // of all: a process has 128 TiB of addresses
#define SHARED_MEMORY_NAME_MAX_BYTES 255

typedef struct shared_memory shared_memory; // the registry
typedef struct shared_region shared_region;

// A run of bytes within a region.
typedef struct shared_span {
  shared_region *region;
  void *base;
  size_t byte_size;
  void *copy;                     // the user's, that is used in its place; else NULL
  TRITONSERVER_DataType datatype; // the user's, of an input

  const unsigned char *handle; // of a GPU's memory, the region's; else NULL
  int64_t device;              // of such
} shared_span;

// `allow_clients`: else nothing can be registered or unregistered, and so there is nothing. Jobs
// close memory of GPUs whose last user is a thread that must not wait. NULL when memory is short.
shared_memory *shared_memory_new(bool allow_clients, jobs *jobs);
// Before the jobs are freed: who has a span from then on may wait. NULL is allowed.
void shared_memory_forget_jobs(shared_memory *memory);
void shared_memory_free(shared_memory *memory); // no span is in use any more; NULL is allowed

// UNSUPPORTED when clients may not register anything, with Triton's text. What registers and
// unregisters says it too: this is for asking before a request is read.
error *shared_memory_allowed(const shared_memory *memory);

// Maps `byte_size` bytes from `offset` on of the POSIX shared memory object `key`: one name, maybe
// with a slash before it. The kernel decides whether the server may. Errors: UNSUPPORTED when
// clients may not, ALREADY_EXISTS for a name in use, INVALID_ARG for a key that cannot be and for
// bytes that are not in the object, INTERNAL (as in Triton) when it cannot be opened, UNAVAILABLE
// when there are too many regions or bytes of them.
error *shared_memory_register_system(shared_memory *memory, const char *name, const char *key,
                                     uint64_t offset, uint64_t byte_size);

// Opens memory of GPU `device` by its CUDA handle, of which the region is the first `byte_size`
// bytes. May take a second; so may the next two. Errors, with the reason: UNSUPPORTED,
// ALREADY_EXISTS, UNAVAILABLE as above; INVALID_ARG for all that the driver refuses, UNAVAILABLE
// where it has no memory.
error *shared_memory_register_cuda(shared_memory *memory, const char *name, slice handle,
                                   int64_t device, uint64_t byte_size);

// Finds the GPUs; where there is none that is INVALID_ARG, in Triton's words and with the reason,
// for who registers `name`.
error *shared_memory_find_gpus(const char *name);

// Unregisters the region `name` of this kind, or all with NULL; what is not there needs nothing. A
// region in use stays, and is found, until its last user gives it back. INTERNAL when the driver
// cannot close a region, which is gone all the same.
error *shared_memory_unregister(shared_memory *memory, TRITONSERVER_MemoryType kind,
                                const char *name);

// Prints into an empty buffer what clients may know, as JSON, of the region `name` of this kind, or
// of all with NULL, in the order in which they came: a list of objects, or with `by_name` an object
// of them. NOT_FOUND when there is none of that name.
error *shared_memory_print(shared_memory *memory, TRITONSERVER_MemoryType kind, const char *name,
                           bool by_name, buffer *json);

// Takes a span for a request. Errors: NOT_FOUND, INVALID_ARG when it is not within the region.
error *shared_memory_take(shared_memory *memory, const char *name, uint64_t offset,
                          uint64_t byte_size, shared_span *span);

// Copies the span to `to`, on the host; from a GPU that may take long, and fail.
error *shared_span_read(const shared_span *span, void *to);

// INVALID_ARG when some of the region was gone when it was touched since the region was registered:
// what was read there are zeroes, what was written is lost. To be asked before the span is given
// back, when nobody touches it any more. Such a region is unregistered with its last user.
error *shared_span_check(const shared_span *span);
void shared_span_give_back(shared_span *span);

#endif
