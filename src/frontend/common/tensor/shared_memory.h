// SPDX-License-Identifier: Apache-2.0
// The registry of memory regions that clients share with the server, by name, for all front ends. A
// request takes a span of a region, which keeps the region mapped until the span is given back; a
// region that is unregistered meanwhile is closed with its last span. Thread-safe; one lock, held
// for look-ups, guards everything.
//
// A region belongs to its client, who may write to it and make it smaller at any time. Reading and
// writing a span is safe nevertheless (memory_guard.h), and shared_span_check tells afterwards
// whether pages were lost. Two reads of the same bytes may differ. GPU memory is used through the
// driver, whose copies fail when something is wrong.
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

// A run of bytes in a region.
typedef struct shared_span {
  shared_region *region;
  void *base;
  size_t byte_size;
  void *copy;                     // set by the user: used in its place; else NULL
  TRITONSERVER_DataType datatype; // set by the user, for inputs

  const unsigned char *handle; // of GPU memory, in the region; else NULL
  int64_t device;              // of that memory
} shared_span;

// Without `allow_clients` nothing can be registered or unregistered, so the registry is empty.
// `jobs` close GPU regions whose last user is a thread that must not wait. NULL when memory is
// short.
shared_memory *shared_memory_new(bool allow_clients, jobs *jobs);
// Call before the jobs are freed: from then on the last user closes a region itself, and may wait.
// NULL is allowed.
void shared_memory_forget_jobs(shared_memory *memory);
void shared_memory_free(shared_memory *memory); // no span may be in use; NULL is allowed

// UNSUPPORTED with Triton's text when clients may not register. Registering and unregistering check
// this too; this is for asking before a request is read.
error *shared_memory_allowed(const shared_memory *memory);

// Maps `byte_size` bytes from `offset` of the POSIX shared memory object `key`: one name, maybe
// after a slash. The kernel decides whether the server may open it. Errors: UNSUPPORTED when
// clients may not register, ALREADY_EXISTS for a name in use, INVALID_ARG for a malformed key and
// for bytes outside of the object, INTERNAL (as in Triton) when the object cannot be opened,
// UNAVAILABLE when there are too many regions or bytes of them.
error *shared_memory_register_system(shared_memory *memory, const char *name, const char *key,
                                     uint64_t offset, uint64_t byte_size);

// Opens memory of GPU `device` by its CUDA handle; the region is its first `byte_size` bytes. May
// take a second, as the next two functions may. Errors, with the reason: UNSUPPORTED,
// ALREADY_EXISTS, UNAVAILABLE as above; INVALID_ARG for all that the driver refuses, UNAVAILABLE
// when the driver is out of memory.
error *shared_memory_register_cuda(shared_memory *memory, const char *name, slice handle,
                                   int64_t device, uint64_t byte_size);

// Checks that there are GPUs, for a client that registers `name`: else INVALID_ARG in Triton's
// words, with the reason.
error *shared_memory_find_gpus(const char *name);

// Unregisters the region `name` of this kind, or all of the kind if `name` is NULL. An absent
// region is no error. A region in use can still be found until its last span is given back.
// INTERNAL when the driver cannot close a region, which is unregistered nevertheless.
error *shared_memory_unregister(shared_memory *memory, TRITONSERVER_MemoryType kind,
                                const char *name);

// Prints as JSON, into an empty buffer, the region `name` of this kind, or all of the kind (`name`
// NULL) in order of registration: a list of objects, or with `by_name` an object of them. NOT_FOUND
// when there is no such region.
error *shared_memory_print(shared_memory *memory, TRITONSERVER_MemoryType kind, const char *name,
                           bool by_name, buffer *json);

// Takes a span for a request. Errors: NOT_FOUND; INVALID_ARG when it is not within the region.
error *shared_memory_take(shared_memory *memory, const char *name, uint64_t offset,
                          uint64_t byte_size, shared_span *span);

// Copies the span to `to`, on the host. A copy from a GPU may take long, and fail.
error *shared_span_read(const shared_span *span, void *to);

// INVALID_ARG when pages of the region were lost when a thread touched them, at any time since its
// registration: reads gave zeroes, writes are lost. Call before the span is given back, when no
// thread uses it any more. A broken region is unregistered with its last user.
error *shared_span_check(const shared_span *span);
void shared_span_give_back(shared_span *span);

#endif
