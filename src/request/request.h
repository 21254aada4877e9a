// SPDX-License-Identifier: Apache-2.0
// An inference request: a client fills it, the core checks it, the scheduler queues it and a
// backend reads it. It is both TRITONSERVER_InferenceRequest and TRITONBACKEND_Request.
//
// Ownership: the client's until TRITONSERVER_ServerInferAsync succeeds; then the core's, then the
// backend's; the release callback returns it to the client. One thread works on it at a time; only
// `cancelled` in its response factory is shared. Memory: the object holds an arena for its inputs
// and one for the rest; input data is the client's and is not copied.
#ifndef NEREID_REQUEST_REQUEST_H
#define NEREID_REQUEST_REQUEST_H

#include "base/arena.h"
#include "base/error.h"
#include "base/slice.h"
#include "base/state.h"
#include "request/parameter.h"
#include "request/request_trace.h"
#include "request/response.h"
#include "request/statistics.h"
#include "request/target.h"
#include "schedule/scheduler.h"
#include "triton/core/tritonserver.h"

typedef struct input_segment { // a run of a tensor's bytes, in the client's memory
  const void *base;
  size_t size;
  TRITONSERVER_MemoryType memory_type;
  int64_t memory_type_id;
  const buffer_attributes *attributes; // if there is a CUDA handle; else NULL
} input_segment;

typedef struct input_data {
  input_segment *segments;
  uint32_t segment_count;
  size_t byte_size; // sum over the segments
} input_data;

// Data of an input for instances with one host policy, in place of its usual data.
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
  int64_t *dims; // for the backend: batch dimension first if the model batches, reshaped; set by
                 // request_prepare
  uint32_t dim_count;
  input_data data;
  policy_data *policies;             // for some host policies; usually NULL
  uint32_t raw_length_prefix;        // the length of a raw BYTES element
  const tensor_signature *signature; // set by request_prepare
  buffer_attributes attributes;      // of the segment that a backend read last
  bool is_override;                  // set by request_set_override
} request_input;

typedef enum request_state {
  REQUEST_INITIALIZED, // the client fills it
  REQUEST_PENDING,     // in the model's queue
  REQUEST_EXECUTING,   // a backend has it
  REQUEST_RELEASED,    // given back: the client's again
} request_state;

typedef enum request_route {
  REQUEST_ROUTE_PLAIN,  // the model has no rules about versions (core/routing.h)
  REQUEST_ROUTE_NAMED,  // the model has rules, and the client named a version
  REQUEST_ROUTE_DUE,    // the client named none: the version is still to be chosen
  REQUEST_ROUTE_CHOSEN, // the version was chosen
} request_route;

// The client's inputs, at the head of the block with the inputs that the backend gets instead.
typedef struct given_inputs {
  request_input *inputs;
  uint32_t count;
} given_inputs;

// An input that a backend gets as a copy on the host.
typedef struct fetched_input {
  struct fetched_input *next;
  input_data *data;      // of the request
  input_data given;      // its original value
  input_segment segment; // the copy, a block
} fetched_input;

struct TRITONSERVER_InferenceRequest {
  request_target *target; // the model version; referenced
  request_route route;
  int64_t asked_version; // as the client gave it
  _Atomic request_state state;
  uint32_t flags;      // TRITONSERVER_RequestFlag
  bool may_run_inline; // on the thread that submits it
  bool is_alone;       // nobody else waits for that thread
  bool is_step;        // step of an ensemble: core/follow_up.h
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
  bool on_device;                 // an input is in GPU memory
  fetched_input *fetched;         // copies that a backend has instead: request/device_inputs.h
  struct sequence_states *states; // of its sequence, referenced; NULL for most models
  bool in_own_sequence;           // its correlation id and flags are not the client's
  slice *requested_outputs;       // names, NUL-terminated; none: all outputs
  uint32_t requested_output_count;
  parameter *parameters;
  uint32_t parameter_count;

  // Set by request_prepare:
  uint32_t batch_size;    // 0: the model does not batch
  int64_t padding_length; // if the model pads: request/padding.h
  given_inputs *given;    // the client's inputs while a backend has others; else NULL
  queue_item item;
  request_times times;
  _Atomic(request *) *slot;  // the instance's pointer to it while a backend has it, or NULL
  response_factory *factory; // referenced
  bool may_answer;           // it holds a right to answer (response_factory_ref)
  bool is_null;              // fills an empty row of a batch; wants no output

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

// Drops the response factory of an earlier submission, if there is one.
void request_drop_factory(request *r);

error *request_set_id(request *r, const char *id);
error *request_set_correlation_text(request *r, const char *text);
// Copies name and value; replaces a parameter of the same name.
error *request_set_parameter(request *r, const char *name, parameter value);

// `raw` inputs take datatype and shape from the model. INVALID_ARG for a repeated name.
error *request_add_input(request *r, const char *name, TRITONSERVER_DataType datatype,
                         const int64_t *dims, uint64_t dim_count, bool raw);
// Adds an input that the model's configuration does not have, to a request that the core made. The
// backend sees `dims`.
error *request_add_override(request *r, const char *name, TRITONSERVER_DataType datatype,
                            const int64_t *dims, uint64_t dim_count);
// Shows the backend an input of the core, such as a sequence's control or state, in place of any
// client's input of this name. Data is not copied; a second override of the same name reuses the
// memory of the first. After request_prepare.
error *request_set_override(request *r, const char *name, TRITONSERVER_DataType datatype,
                            const int64_t *dims, uint32_t dim_count, input_segment segment);
// Removes all overrides: the inputs are the client's again.
void request_drop_overrides(request *r);
// The client's inputs.
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
// Data for instances with the host policy `policy`, in place of the usual data. `policy` is copied.
error *request_append_policy_data(request *r, const char *name, input_segment segment,
                                  const char *policy);
// The data that instances with `policy` (or NULL) read: their own if there is any, else the usual.
const input_data *request_input_data(const request_input *input, const char *policy);
error *request_remove_input_data(request *r, const char *name);
error *request_add_output(request *r, const char *name);
error *request_remove_output(request *r, const char *name);
void request_remove_outputs(request *r);

// Checks the request against its model and completes it: batch size, shapes, batch key, a fresh
// response factory. Errors are INVALID_ARG in Triton's words and begin with "[request id: …] ".
error *request_prepare(request *r);
// Checks a text input's data, which must be on the host, against its lengths.
error *request_check_texts(const request *r, const request_input *input, const input_data *data);

// Makes a fresh response factory from the request's callbacks and allocator: a part of
// request_prepare.
error *request_renew_factory(request *r);

// The number and names of the outputs for the backend: the requested ones, or all of the model's.
uint32_t request_output_count(const request *r);
slice request_output_name(const request *r, uint32_t index);

// INVALID_ARG, in Triton's words, if request_release with RESCHEDULE could not run the request
// again.
error *request_check_reschedule(const request *r);
// Gives the request back to the client through its release callback, or to the core that runs it
// again; `r` must not be touched afterwards.
void request_release(request *r, uint32_t release_flags);

// Rows for queue and statistics: at least 1.
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
  return container_of(item, request, item);
}

// On the thread that owns the request.
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
