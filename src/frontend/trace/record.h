// SPDX-License-Identifier: Apache-2.0
// What is recorded of one request: a part for the request itself and one for each child of its
// trace (steps of an ensemble, calls of a model), each with events in the order in which they were
// reported. Whoever reports appends under the record's lock; once complete it is only read.
#ifndef NEREID_FRONTEND_TRACE_RECORD_H
#define NEREID_FRONTEND_TRACE_RECORD_H

#include "base/arena.h"
#include "base/refcount.h"
#include "base/slice.h"
#include "frontend/trace/trace.h"
#include "frontend/trace/trace_context.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define RECORD_MAX_BYTES  (16u << 20)  // of one request; what is larger is dropped as a whole
#define RECORDS_MAX_BYTES (256u << 20) // of all of them, in this process

typedef struct trace_setting trace_setting; // settings.h

// One tensor; texts are as the JSON file has them.
typedef struct trace_tensor {
  slice name;
  slice data;
  slice shape;
  const char *datatype; // static
} trace_tensor;

// The text of an input in memory of a GPU, made before the core reported it: it reports on threads
// that may not ask a GPU.
typedef struct trace_input {
  struct trace_input *next;
  TRITONSERVER_DataType datatype;
  const void *base;
  size_t size;
  slice text; // data NULL: it could not be read
} trace_input;

#define MOMENT_OF_FRONT_END (-1)

typedef struct trace_event {
  struct trace_event *next;
  int activity; // TRITONSERVER_InferenceTraceActivity, or MOMENT_OF_FRONT_END
  const char *name;
  uint64_t moment_ns;         // of the monotonic clock
  const trace_tensor *tensor; // NULL: just a moment
} trace_event;

typedef struct trace_part {
  struct trace_part *next;
  uint64_t id;
  uint64_t parent_id;     // 0: none
  const char *model_name; // NULL: the core never had it
  int64_t model_version;
  const char *request_id;
  span_id span; // of the model's span
  trace_event *first, **end;
} trace_part;

struct trace_record {
  refcount references;    // the front end's, the core's while it has the trace, the exporter's
  trace_record *next;     // in the exporter's queue
  trace_setting *setting; // referenced
  trace_service *service; // referenced until it is finished
  void (*finished)(trace_record *r_owned); // called by whoever drops the last but the exporter's
  TRITONSERVER_InferenceTrace *trace;      // until it is handed over
  uint64_t root_id;
  bool takes_moments; // of the front end; the core knows the level itself
  bool takes_tensors; // the front end reads those in memory of GPUs before

  bool spans;                // for OpenTelemetry: contexts are given to the models
  trace_context_ids context; // the trace, and the client's span
  slice tracestate;
  span_id root_span;
  int64_t realtime_offset_ns; // what to add to a moment
  uint64_t began_ns, ended_ns;

  pthread_mutex_t lock; // guards what follows
  arena memory;
  size_t bytes;
  bool incomplete; // too large, or memory was short
  trace_part *first, **end;
  trace_input *inputs; // on GPUs
};

// Makes a record and its trace of the core. NULL: memory is short.
trace_record *record_new(trace_setting *setting);
void record_free(trace_record *r);

size_t record_span_count(const trace_record *r);

// Appends the elements that lie in `size` bytes at `base`, in decimal, separated by commas, texts
// in quotes; at most about `limit` bytes of text. False: there are more.
bool tensor_text_append(buffer *out, TRITONSERVER_DataType datatype, const void *base, size_t size,
                        size_t limit);

// The same for memory of a GPU, copied from there; *whole: there are no more. False: it cannot be
// read. May block for as long as the GPU is busy.
bool gpu_tensor_text_append(buffer *out, TRITONSERVER_DataType datatype, const void *base,
                            size_t size, int64_t device, size_t limit, bool *whole);

// Appends the entries of the JSON file; each but the first one in `out` has a comma in front.
void record_print(const trace_record *r, buffer *out);

#endif
