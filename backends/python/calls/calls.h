// SPDX-License-Identifier: Apache-2.0
// What a model asks of the server while it runs: inferences by other models (BLS), custom metrics,
// loading and unloading of models. One object for each worker process; when the worker is gone,
// what it has under way is cancelled and its answers are dropped. What is under way lets go of its
// memory when it ends, and counts in the backend until then (python_backend_ref).
#ifndef NEREID_PYTHON_CALLS_H
#define NEREID_PYTHON_CALLS_H

#include "base/cleanup.h"
#include "base/refcount.h"
#include "codec/protocol.h"
#include "codec/tensor_wire.h"
#include "instance/instance.h"

#include <pthread.h>
#include <stdatomic.h>

extern const instance_calls CALLS;

// ---- what the parts of calls share

enum {
  MAX_METRICS = 65536 // families and metrics of one worker
};

// One entry is a family or a metric of one, or free (both NULL); its number is its index + 1.
typedef struct metric_entry {
  TRITONSERVER_MetricFamily *family;
  TRITONSERVER_Metric *metric;
  uint64_t of; // a metric's family
} metric_entry;

typedef struct metric_table {
  metric_entry *entries;
  size_t count;
  size_t room;
} metric_table;

typedef struct calls {
  refcount references;
  TRITONSERVER_Server *server;
  python_backend *backend; // counts it
  TRITONSERVER_ResponseAllocator *allocator;
  worker_link *link;
  python_instance *instance; // gone when `ended`
  char *where;
  metric_table metrics; // the listener's thread
  atomic_bool ended;
  pthread_mutex_t lock; // guards what follows
  list inferences;      // infer_call, under way
  unsigned model_calls; // threads of model_control.c
} calls;

calls *calls_ref(calls *self);
void calls_unref(calls *self);

// --- Replies, unless the worker is gone, so that nobody waits for one. Any thread.

void calls_send(calls *self, const channel_message *reply);
void calls_reply(calls *self, const channel_message *call, uint64_t value);
void calls_reply_part(calls *self, const channel_message *call, control_part_write *write,
                      const void *what);
// `reply` with the error as its control part, by `write`.
void calls_send_error(calls *self, channel_message reply, control_part_write *write,
                      TRITONSERVER_Error *error_owned);
void calls_reply_error(calls *self, const channel_message *call, TRITONSERVER_Error *error_owned);

// A text of the control part, terminated, for free(). NULL when it is bad, has a NUL, or memory is
// short.
char *calls_text(wire_reader *reader);

// --- The kinds of calls. The listener's thread.

typedef void call_handler(calls *self, const channel_message *message, wire_reader *control);
call_handler infer_call_start, infer_call_cancel, infer_call_wait, metric_call, model_control_start;

void infer_calls_cancel_all(calls *self); // with the lock held
TRITONSERVER_Error *infer_allocator_new(TRITONSERVER_ResponseAllocator **made);

// Deletes all metrics and families.
void metric_table_fini(metric_table *self);

#endif
