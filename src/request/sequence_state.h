// SPDX-License-Identifier: Apache-2.0
// The implicit state of a sequence: tensors that the core keeps from one request of it to the next.
// A model's backend reads them as inputs of the request and writes the next ones by
// TRITONBACKEND_State*. The sequence table (core/sequences.h) makes a set when a sequence starts
// and hangs it on each request that it hands to an instance. One request of a sequence is under way
// at a time, so that a set is used by one thread at a time: the table's, then the instance's.
#ifndef NEREID_REQUEST_SEQUENCE_STATE_H
#define NEREID_REQUEST_SEQUENCE_STATE_H

#include "base/buffer.h"
#include "base/refcount.h"
#include "request/buffer_attributes.h"
#include "request/request.h"

// Where memory for states comes from that is not the heap's: the core's pools and regions
// (core/state_memory.h). The functions are called by the instance's thread, those that give back by
// any; no giving back calls the driver.
typedef struct state_source {
  void *context;
  // Memory where *type and *id say, or, when there is none, of another kind, which they say then:
  // TRITONSERVER_MEMORY_CPU for nothing taken, so that the heap is to be used.
  error *(*take)(void *context, size_t size, TRITONSERVER_MemoryType *type, int64_t *id,
                 void **data);
  void (*give_back)(void *context, void *data, TRITONSERVER_MemoryType type, int64_t id);
  // Memory on the device that grows in its place: of at least `size` bytes, which begin with those
  // of `initial`.
  error *(*take_region)(void *context, int32_t device, const void *initial, size_t size,
                        void **region, void **data);
  error *(*grow_region)(void *context, void *region, size_t size);
  void (*give_region_back)(void *context, void *region);
  bool clears; // the backend may not write all of a state
} state_source;

// One `state` of a model's configuration. Immutable; outlives the sequences.
typedef struct state_rule {
  const char *input_name;
  const char *output_name;
  TRITONSERVER_DataType datatype;
  const int64_t *dims; // of the first state, with the batch's 1 in front
  uint32_t dim_count;
  bool same_buffer;    // the next state is written over the last one
  bool grows;          // so it is, in memory on the instance's GPU that grows in its place
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
  TRITONSERVER_MemoryType type; // CPU: of the heap; else of the source
  int64_t id;
  void *region; // of the source, where `data` is; or NULL
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
  bool same_buffer;           // `next` has no memory of its own
  bool grows;
  state_shape shape;
  state_memory memory; // what the next request reads
  state_shape next_shape;
  state_memory next; // what the backend writes
  const void *read;  // what the last request reads
  state_memory lent; // the same, where it is neither of those any more: kept until the next request
  buffer_attributes attributes; // of `next`
} state_tensor;

typedef struct sequence_states {
  refcount references;
  buffer batch_key;    // the request's that has the set: its own one, then the states' shapes
  size_t own_key_size; // of it
  size_t count;
  state_tensor items[];
} sequence_states;

// The first states of a sequence.
error *sequence_states_new(const state_rules *rules, sequence_states **states);
// Zeros of the shapes that `like` has now, for a request that only fills a sequence's place in a
// batch: what the backend does with it is forgotten.
error *sequence_states_new_null(const sequence_states *like, sequence_states **states);

static inline sequence_states *sequence_states_ref(sequence_states *states)
{
  refcount_take(&states->references);
  return states;
}

void sequence_states_unref(sequence_states *states); // NULL is allowed

// Hangs the set on a request, in place of what hangs there, and shows its tensors as inputs. It is
// the only request that has it, and shares a batch only with those whose states have these shapes.
error *request_set_states(request *r, sequence_states *states);
// Brings the states that grow to the device, before a backend there gets the request.
error *request_place_states(request *r, int32_t device);
void request_drop_states(request *r); // its inputs stay until request_drop_overrides

// ---- what backends call ----

// The state that the backend is about to write, in Triton's words if there is none.
error *state_tensor_find(const request *r, const char *name, TRITONSERVER_DataType datatype,
                         const int64_t *dims, uint32_t dim_count, state_tensor **state);
// Memory for it: what is there, if it has that size and place. *type and *id, which say where it is
// wanted, say then where it is.
error *state_tensor_allocate(state_tensor *state, size_t size, TRITONSERVER_MemoryType *type,
                             int64_t *id, void **data);
// What was written is what the next request reads.
error *state_tensor_update(state_tensor *state);

#endif
