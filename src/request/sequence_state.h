// SPDX-License-Identifier: Apache-2.0
// The implicit state of a sequence: tensors that the core keeps from one of its requests to the
// next. The backend reads them as inputs of the request and writes the next ones by
// TRITONBACKEND_State*. The sequence table (core/sequences.h) makes a set when a sequence starts
// and attaches it to each request that it gives to an instance. One request of a sequence is under
// way at a time, so one thread uses a set at a time: the table's, then the instance's.
#ifndef NEREID_REQUEST_SEQUENCE_STATE_H
#define NEREID_REQUEST_SEQUENCE_STATE_H

#include "base/buffer.h"
#include "base/refcount.h"
#include "request/buffer_attributes.h"
#include "request/request.h"

// Provides memory for states outside the heap: the core's pools and regions (core/state_memory.h).
// Called by the instance's thread, give_back and give_region_back by any thread; these two never
// call the driver.
typedef struct state_source {
  void *context;
  // Takes memory of the kind *type and *id or, if there is none, of another kind, and sets both
  // accordingly. TRITONSERVER_MEMORY_CPU: nothing was taken, use the heap.
  error *(*take)(void *context, size_t size, TRITONSERVER_MemoryType *type, int64_t *id,
                 void **data);
  void (*give_back)(void *context, void *data, TRITONSERVER_MemoryType type, int64_t id);
  // Takes memory on the device that can grow in place: at least `size` bytes, which begin with
  // those of `initial`.
  error *(*take_region)(void *context, int32_t device, const void *initial, size_t size,
                        void **region, void **data);
  error *(*grow_region)(void *context, void *region, size_t size);
  void (*give_region_back)(void *context, void *region);
  bool clears; // memory must be cleared: the backend may not write all of a state
} state_source;

// One `state` of a model's configuration. Immutable; outlives the sequences.
typedef struct state_rule {
  const char *input_name;
  const char *output_name;
  TRITONSERVER_DataType datatype;
  const int64_t *dims; // of the first state, with a 1 in front for the batch
  uint32_t dim_count;
  bool same_buffer;    // the next state overwrites the last one
  bool grows;          // the same, in memory on the instance's GPU that grows in place
  const void *initial; // the first state's bytes; NULL: zeros
  size_t initial_size;
} state_rule;

typedef struct state_rules {
  state_rule *items;
  size_t count;
  state_source source;
} state_rules;

typedef struct state_memory {
  void *data; // owned; aligned to BLOCK_ALIGNMENT
  size_t size;
  TRITONSERVER_MemoryType type; // CPU: from the heap; else from the source
  int64_t id;
  void *region; // the source's region that holds `data`, or NULL
} state_memory;

typedef struct state_shape {
  TRITONSERVER_DataType datatype;
  int64_t *dims; // owned
  uint32_t dim_count;
} state_shape;

// One tensor of the set.
typedef struct TRITONBACKEND_State {
  const char *input_name;
  const char *output_name;
  const state_source *source; // the model's
  bool same_buffer;           // `next` has no own memory
  bool grows;
  state_shape shape;
  state_memory memory; // read by the next request
  state_shape next_shape;
  state_memory next; // written by the backend
  const void *read;  // the memory that the last request reads
  state_memory lent; // that memory, if neither `memory` nor `next` has it any more; kept until the
                     // next request
  buffer_attributes attributes; // of `next`
} state_tensor;

typedef struct sequence_states {
  refcount references;
  buffer batch_key;    // of the request with this set: its own key, then the states' shapes
  size_t own_key_size; // size of the request's own key
  size_t count;
  state_tensor items[];
} sequence_states;

// The first states of a sequence.
error *sequence_states_new(const state_rules *rules, sequence_states **states);
// Zeros of the shapes that `like` has now, for a request that only fills a sequence's row in a
// batch; the backend's changes are discarded.
error *sequence_states_new_null(const sequence_states *like, sequence_states **states);

void sequence_states_unref(sequence_states *states); // NULL is allowed

// Attaches the set to a request, replacing any other, and shows its tensors as inputs. Only one
// request may have the set; it shares a batch only with requests whose states have the same shapes.
error *request_set_states(request *r, sequence_states *states);
// Moves the growing states to the device, before a backend there gets the request.
error *request_place_states(request *r, int32_t device);
void request_drop_states(request *r); // the inputs stay until request_drop_overrides

// ---- what backends call ----

// The state that the backend is about to write. The error is in Triton's words.
error *state_tensor_find(const request *r, const char *name, TRITONSERVER_DataType datatype,
                         const int64_t *dims, uint32_t dim_count, state_tensor **state);
// Memory for the next state; reuses the present memory if it has that size and place. *type and *id
// give the wanted place, on return the actual one.
error *state_tensor_allocate(state_tensor *state, size_t size, TRITONSERVER_MemoryType *type,
                             int64_t *id, void **data);
// Makes the written state the one that the next request reads.
error *state_tensor_update(state_tensor *state);

#endif
