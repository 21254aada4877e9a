// SPDX-License-Identifier: Apache-2.0
// Responses and response factories. A factory is the part of a request that answering it needs; it
// may outlive the request, as decoupled models answer after releasing it. Responses are owned by
// the backend until sent, then by the client.
#ifndef NEREID_REQUEST_RESPONSE_H
#define NEREID_REQUEST_RESPONSE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "request/buffer_attributes.h"
#include "request/parameter.h"
#include "request/request_trace.h"
#include "request/target.h"
#include "schedule/ordering.h"
#include "triton/core/tritonserver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct TRITONBACKEND_ResponseFactory response_factory;

// Hangs on the factory of a request that missed the cache, until its first response. `end` is
// called once, with the response about to be sent or NULL if there is none, and frees the ticket.
typedef struct cache_ticket {
  void (*end)(struct cache_ticket *self_owned, response *r, uint32_t flags);
} cache_ticket;

// An answer to the client, in the model's order.
typedef struct ordered_answer {
  ordering_payload payload; // the ordering's handle
  response *response;       // NULL: flags only
  response_factory *factory;
  uint32_t flags;
} ordered_answer;

struct TRITONBACKEND_ResponseFactory {
  _Atomic uint64_t holders; // low half: references; high half: rights to answer
  request_target *target;   // referenced
  struct TRITONSERVER_ResponseAllocator *allocator;
  void *allocator_context;
  TRITONSERVER_InferenceResponseCompleteFn_t callback;
  void *callback_context;
  _Atomic bool cancelled;
  _Atomic bool finished;  // the FINAL flag has been sent
  bool answer_owed;       // the request was queued: the core answers when the last right is dropped
  uint64_t start_ns;      // when the request entered the core
  uint64_t executed_ns;   // when an instance took it; 0: not yet
  uint32_t executed_rows; // of that execution
  int64_t true_length, padded_length; // where its inputs were padded (request/padding.h)
  _Atomic uint64_t first_response_ns;
  _Atomic uint64_t reported_responses; // counted by the backend's statistics
  ordering *ordering;          // with preserve_ordering, once the slot is reserved; NULL otherwise
  ordering_slot slot;          // its place in the order
  ordered_answer final_answer; // flags without a response that wait for their place
  trace *trace;                // owned or NULL; holders of a right to answer may use it
  cache_ticket *cache_ticket;  // owned or NULL; the first answer ends it
  _Atomic(void *) run; // an ensemble's memory, freed with this (core/ensemble_parts.h); or NULL
  size_t id_size;
  char id[]; // NUL-terminated
};

typedef struct TRITONBACKEND_Output {
  response *response;
  slice name; // NUL-terminated
  TRITONSERVER_DataType datatype;
  int64_t *dims;
  uint32_t dim_count;
  bool allocated;
  void *buffer; // from the client's allocator
  void *buffer_context;
  buffer_attributes attributes; // size and place of the buffer
  const padded_tensor *cut;     // not NULL: it has padding, and until it is sent:
  void *scratch;                // the backend writes here, not to `buffer`; owned
  size_t scratch_size;
  struct TRITONBACKEND_Output *next;
} response_output;

// Also TRITONBACKEND_Response.
struct TRITONSERVER_InferenceResponse {
  response_factory *factory; // referenced
  bool has_scratch;          // an output has one
  bool sent;                 // its reference is no right to answer any more
  error *failure;            // owned; NULL: success
  response_output *outputs;  // in the order in which the backend made them
  response_output *last_output;
  uint32_t output_count;
  parameter *parameters;
  uint32_t parameter_count;
  ordered_answer answer; // while it waits for its place in the order
  arena memory;
  _Alignas(16) char initial_memory[];
};

// Takes a reference to `target` and copies the id.
response_factory *response_factory_new(request_target *target, slice id);
// A reference includes a right to answer. When the last right is dropped without a final answer,
// the core answers.
response_factory *response_factory_ref(response_factory *f);
void response_factory_unref(response_factory *f); // NULL is allowed
// The two halves of response_factory_unref, for a request that the client keeps after its release:
// it cannot answer any more, but it can be cancelled.
void response_factory_give_up_right(response_factory *f);
void response_factory_drop_reference(response_factory *f);

static inline bool response_factory_is_cancelled(const response_factory *f)
{
  return atomic_load_explicit(&f->cancelled, memory_order_relaxed);
}

// Sends flags without a response to the client: the end of a decoupled answer. INVALID_ARG for a
// second FINAL.
error *response_factory_send_flags(response_factory *f, uint32_t flags);

error *response_new(response_factory *f, response **r);
void response_free(
    response *r); // gives the output buffers back to the client's allocator; NULL is allowed

// `dims` are the backend's, with the batch dimension; if they match the model's reshape, it is
// undone here. Errors: INVALID_ARG for an output that the model does not have; with strict outputs
// INTERNAL for one that is not as configured or repeated.
error *response_add_output(response *r, const char *name, TRITONSERVER_DataType datatype,
                           const int64_t *dims, uint32_t dim_count, response_output **output);

// Adds an output as the client sees it, without reshape or check. `dims` must be in the response's
// memory. NULL for an output that the model does not have or the response has already, and when
// memory is short.
response_output *response_restore_output(response *r, slice name, TRITONSERVER_DataType datatype,
                                         const int64_t *dims, uint32_t dim_count);

// Asks the client's allocator for the output's memory. In: the preferred place; out: the actual
// one. Once per output.
error *response_output_allocate(response_output *output, size_t byte_size,
                                TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id,
                                void **buffer);
// Asks the client's allocator for an output's memory before there is a response. `attributes` has
// the size and the preferred place, on return the actual one.
error *response_allocate(const response_factory *f, const char *name, buffer_attributes *attributes,
                         void **buffer, void **buffer_context);
// The output takes over the memory of `from`, an output of another response. This response's client
// allocated it, with `buffer_context`.
void response_output_take_over(response_output *output, const response_output *from,
                               void *buffer_context);

error *response_set_parameter(response *r, const char *name, parameter value);

// Sends the response to the client, in its place in the order. `failure_owned` (or NULL) becomes
// its error. INVALID_ARG after the FINAL flag: the response is freed then.
error *response_send(response *r_owned, uint32_t flags, error *failure_owned);

// The `send` function of a model's ordering: gives an answer to its client.
void response_send_ordered(void *context, ordering_payload *payload_owned);

#endif
