// SPDX-License-Identifier: Apache-2.0
// An inference request: what a client fills, the core checks, the scheduler queues and a backend
// reads. It is both TRITONSERVER_InferenceRequest and TRITONBACKEND_Request.
//
// Ownership: the client's until TRITONSERVER_ServerInferAsync succeeds; then the core's, then the
// backend's; it comes back to the client through the release callback. One thread works on it at a
// time, but for `cancelled` in its response factory. Memory: the object holds an arena for its
// inputs and one for the rest; input data is the client's and is not copied.
#ifndef NEREID_REQUEST_REQUEST_H
#define NEREID_REQUEST_REQUEST_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/state.h"
#include "request/parameter.h"
#include "request/response.h"
#include "request/statistics.h"
#include "request/target.h"
#include "request/trace.h"
#include "schedule/scheduler.h"
#include "triton/core/tritonserver.h"

typedef struct input_segment { // a run of a tensor's bytes, in the client's memory
  const void *base;
  size_t size;
  TRITONSERVER_MemoryType memory_type;
  int64_t memory_type_id;
  const buffer_attributes *attributes; // with a CUDA handle; NULL: there is none
} input_segment;

typedef struct input_data {
  input_segment *segments;
  uint32_t segment_count;
  size_t byte_size; // sum over the segments
} input_data;

// What instances with one host policy read of an input instead of its usual data.
typedef struct policy_data {
  slice policy;
  input_data data;
  struct policy_data *next;
} policy_data;

typedef struct TRITONBACKEND_Input {
  slice name; // NUL-terminated
  TRITONSERVER_DataType datatype;
  bool raw;                  // a raw binary request: datatype and shape come from the model
  const int64_t *given_dims; // as the client gave them
  uint32_t given_dim_count;
  int64_t *dims; // what the backend sees: batch dimension first if the model batches, reshaped; set
                 // by request_prepare
  uint32_t dim_count;
  input_data data;
  policy_data *policies;             // for some host policies; NULL: none, as ever
  uint32_t raw_length_prefix;        // of a raw BYTES element
  const tensor_signature *signature; // set by request_prepare
  buffer_attributes attributes;      // of the segment that a backend asked for last
  bool is_override;                  // of request_set_override
} request_input;

typedef enum request_state {
  REQUEST_INITIALIZED, // the client fills it
  REQUEST_PENDING,     // in the model's queue
  REQUEST_EXECUTING,   // with a backend
  REQUEST_RELEASED,    // given back: the client's again
} request_state;

typedef enum request_route {
  REQUEST_ROUTE_PLAIN,  // its model has no rules about versions (core/routing.h)
  REQUEST_ROUTE_NAMED,  // it has, and the client says which version
  REQUEST_ROUTE_DUE,    // the client does not: it is to be chosen
  REQUEST_ROUTE_CHOSEN, // it was
} request_route;

// What the client gave, at the head of a block that has what a backend gets instead.
typedef struct given_inputs {
  request_input *inputs;
  uint32_t count;
} given_inputs;

// An input that a backend has a copy of on the host.
typedef struct fetched_input {
  struct fetched_input *next;
  input_data *data;      // of the request
  input_data given;      // what it was
  input_segment segment; // the copy, a block
} fetched_input;

struct TRITONSERVER_InferenceRequest {
  request_target *target; // the model version; referenced
  request_route route;
  int64_t asked_version; // as the client gave it
  _Atomic request_state state;
  uint32_t flags;      // TRITONSERVER_RequestFlag
  bool may_run_inline; // on the thread that submits it
  bool is_step;        // of an ensemble: core/follow_up.h
  uint64_t correlation_id;
  const char *correlation_text; // NULL: the number counts
  uint64_t priority;
  uint64_t timeout_us;
  slice id; // NUL-terminated; never NULL

  request_input *inputs; // as the backend sees them
  uint32_t input_count;
  request_input *given_inputs; // the client's, while there are overrides
  uint32_t given_input_count;
  bool has_overrides;
  bool on_device;                 // some input is in memory of a GPU
  fetched_input *fetched;         // while a backend has a copy instead: request/device_inputs.h
  struct sequence_states *states; // of its sequence, referenced; NULL for most models
  bool in_own_sequence;           // its correlation id and flags are not the client's
  slice *requested_outputs;       // what the client asked for, NUL-terminated; none means all
  uint32_t requested_output_count;
  parameter *parameters;
  uint32_t parameter_count;

  // Set by request_prepare:
  uint32_t batch_size;    // 0: the model does not batch
  int64_t padding_length; // where the model pads: request/padding.h
  given_inputs *given;    // while a backend has other inputs in their place; NULL: it has these
  queue_item item;
  request_times times;
  _Atomic(request *) *slot;  // where an instance remembers it while a backend has it, or NULL
  response_factory *factory; // referenced
  bool may_answer;           // with the right to answer
  bool is_null;              // it stands in a row of a batch that has no request; wants no output

  struct TRITONSERVER_ResponseAllocator *allocator;
  void *allocator_context;
  TRITONSERVER_InferenceResponseCompleteFn_t response_callback;
  void *response_context;
  TRITONSERVER_InferenceRequestReleaseFn_t release_callback;
  void *release_context;

  arena memory;       // identity, parameters, outputs
  arena input_memory; // inputs; emptied by request_remove_inputs
  _Alignas(16) char initial_memory[];
};

// Takes a reference to `target`.
error *request_new(request_target *target, request **r);
void request_free(request *r); // the client's TRITONSERVER_InferenceRequestDelete; NULL is allowed

// Lets go of the response factory of an earlier submission, if there is one.
void request_drop_factory(request *r);

error *request_set_id(request *r, const char *id);
error *request_set_correlation_text(request *r, const char *text);
// Copies name and value; the last of equal names counts.
error *request_set_parameter(request *r, const char *name, parameter value);

// `raw` inputs take datatype and shape from the model. A name that is there already is INVALID_ARG.
error *request_add_input(request *r, const char *name, TRITONSERVER_DataType datatype,
                         const int64_t *dims, uint64_t dim_count, bool raw);
// One that the model's configuration does not have, of a request that the core has made. `dims` are
// what the backend sees.
error *request_add_override(request *r, const char *name, TRITONSERVER_DataType datatype,
                            const int64_t *dims, uint64_t dim_count);
// Shows the backend an input that is not the client's, such as a sequence's control or state, in
// place of the client's of this name, if there is one. Data is not copied; a second one of the name
// takes the memory of the first. After request_prepare.
error *request_set_override(request *r, const char *name, TRITONSERVER_DataType datatype,
                            const int64_t *dims, uint32_t dim_count, input_segment segment);
// Takes all of these away: the inputs are the client's again.
void request_drop_overrides(request *r);
// The client's.
static inline request_input *request_given_inputs(const request *r, uint32_t *count)
{
  *count = r->has_overrides ? r->given_input_count : r->input_count;
  return r->has_overrides ? r->given_inputs : r->inputs;
}
request_input *request_find_input(request *r, const char *name); // NULL when absent
error *request_remove_input(request *r, const char *name);
void request_remove_inputs(request *r);
// The segment's attributes are copied.
error *request_append_input_data(request *r, const char *name, input_segment segment);
// For instances with the host policy `policy`, which is copied, instead of the usual data.
error *request_append_policy_data(request *r, const char *name, input_segment segment,
                                  const char *policy);
// What instances with `policy` (or NULL) read: the usual data where there is none for them.
const input_data *request_input_data(const request_input *input, const char *policy);
error *request_remove_input_data(request *r, const char *name);
error *request_add_output(request *r, const char *name);
error *request_remove_output(request *r, const char *name);
void request_remove_outputs(request *r);

// Checks the request against its model and completes it: batch size, shapes, batch key, a fresh
// response factory. Errors are INVALID_ARG in Triton's words and begin with "[request id: …] ".
error *request_prepare(request *r);
// Whether a text input's data, which is on the host, is as its lengths say.
error *request_check_texts(const request *r, const request_input *input, const input_data *data);

// A fresh response factory, of the request's callbacks and allocator: a part of request_prepare.
error *request_renew_factory(request *r);

// Number of outputs the backend is asked for and their names: the requested ones, or all of the
// model's.
uint32_t request_output_count(const request *r);
slice request_output_name(const request *r, uint32_t index);

// INVALID_ARG, in Triton's words, where request_release with RESCHEDULE would not have it go again.
error *request_check_reschedule(const request *r);
// Gives the request back to the client through its release callback, or to the sequence that it
// goes on in; `r` must not be touched after.
void request_release(request *r, uint32_t release_flags);

// Rows that count for queue and statistics: at least 1.
static inline uint32_t request_rows(const request *r)
{
  return r->batch_size == 0 ? 1 : r->batch_size;
}

static inline bool request_is_cancelled(const request *r)
{
  return r->factory != NULL && response_factory_is_cancelled(r->factory);
}

static inline request *request_of_item(queue_item *item)
{
  return (request *)((char *)item - offsetof(request, item));
}

// Any thread that the request belongs to.
static inline void request_set_state(request *r, request_state to)
{
  static const unsigned allowed[] = {
      [REQUEST_INITIALIZED] = STATE_BIT(REQUEST_INITIALIZED) | STATE_BIT(REQUEST_PENDING),
      [REQUEST_PENDING] = STATE_BIT(REQUEST_EXECUTING) | STATE_BIT(REQUEST_INITIALIZED) |
                          STATE_BIT(REQUEST_RELEASED),
      [REQUEST_EXECUTING] = STATE_BIT(REQUEST_RELEASED) | STATE_BIT(REQUEST_PENDING),
      [REQUEST_RELEASED] = STATE_BIT(REQUEST_INITIALIZED) | STATE_BIT(REQUEST_PENDING),
  };
  state_assert(allowed, atomic_load_explicit(&r->state, memory_order_relaxed), to);
  atomic_store_explicit(&r->state, to, memory_order_release);
}

// An INVALID_ARG (or `code`) error that begins with "[request id: <id>] ".
error *request_error(const request *r, error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
