// SPDX-License-Identifier: Apache-2.0
// The record of a traced request: a part for the request and one for each child of its trace (steps
// of an ensemble, calls of a model), each with events in the order of their reports. Reporting
// threads append under the record's lock; a finished record is only read.
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

#define RECORD_MAX_BYTES  (16u << 20)  // of one record; a larger one is dropped
#define RECORDS_MAX_BYTES (256u << 20) // of all records in the process

typedef struct trace_setting trace_setting; // settings.h

// A tensor; its texts are as in the JSON file.
typedef struct trace_tensor {
  slice name;
  slice data;
  slice shape;
  const char *datatype; // static
} trace_tensor;

// The text of an input in GPU memory. It is made before the core reports the input, on a thread
// that must not wait for a GPU.
typedef struct trace_input {
  struct trace_input *next;
  TRITONSERVER_DataType datatype;
  const void *base;
  size_t size;
  slice text; // data NULL: could not be read
} trace_input;

#define MOMENT_OF_FRONT_END (-1)

typedef struct trace_event {
  struct trace_event *next;
  int activity; // TRITONSERVER_InferenceTraceActivity, or MOMENT_OF_FRONT_END
  const char *name;
  uint64_t moment_ns;         // on the monotonic clock
  const trace_tensor *tensor; // NULL: no tensor
} trace_event;

typedef struct trace_part {
  struct trace_part *next;
  uint64_t id;
  uint64_t parent_id;     // 0: none
  const char *model_name; // NULL: the core has not reported this part
  int64_t model_version;
  const char *request_id;
  span_id span; // the span of the model
  trace_event *first, **end;
} trace_part;

struct trace_record {
  refcount references;                     // the front end's, and the core's while it has the trace
  trace_record *next;                      // in the exporter's queue
  trace_setting *setting;                  // referenced
  trace_service *service;                  // referenced until the record is finished
  void (*finished)(trace_record *r_owned); // called when the last reference is dropped
  TRITONSERVER_InferenceTrace *trace;      // NULL once it is handed over
  uint64_t root_id;
  bool takes_moments; // from the front end; the core checks the level itself
  bool takes_tensors; // the front end must read inputs in GPU memory

  bool spans;                // for OpenTelemetry: models get a context
  trace_context_ids context; // trace id, and the client's span
  slice tracestate;
  span_id root_span;
  int64_t realtime_offset_ns; // wall clock minus monotonic clock
  uint64_t began_ns, ended_ns;

  pthread_mutex_t lock; // guards what follows
  arena memory;
  size_t bytes;
  bool incomplete; // too large, or memory was short
  trace_part *first, **end;
  trace_input *inputs; // in GPU memory
};

// Makes a record and the core's trace for it. NULL when memory is short.
trace_record *record_new(trace_setting *setting);
void record_free(trace_record *r);

size_t record_span_count(const trace_record *r);

// Appends the elements in `size` bytes at `base`: decimal, separated by commas, texts in quotes;
// about `limit` bytes of text at most. False: there are more.
bool tensor_text_append(buffer *out, TRITONSERVER_DataType datatype, const void *base, size_t size,
                        size_t limit);

// The same for GPU memory, which is copied first; *whole: all elements are there. False: it cannot
// be read. May wait as long as the GPU is busy.
bool gpu_tensor_text_append(buffer *out, TRITONSERVER_DataType datatype, const void *base,
                            size_t size, int64_t device, size_t limit, bool *whole);

// Appends the record's entries for the JSON file, with a comma before each that is not the first in
// `out`.
void record_print(const trace_record *r, buffer *out);

#endif
