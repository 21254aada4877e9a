// SPDX-License-Identifier: Apache-2.0
// A model's requests to the server while it runs: inferences by other models (BLS), custom metrics,
// loading and unloading of models. One object per worker process. When the worker has gone, its
// open calls are cancelled and their answers are dropped. An open call frees its memory when it
// ends, and keeps the backend alive until then (python_backend_ref).
#ifndef NEREID_PYTHON_CALLS_H
#define NEREID_PYTHON_CALLS_H

#include "base/cleanup.h"
#include "base/refcount.h"
#include "codec/protocol.h"
#include "codec/tensor_wire.h"
#include "instance/python_instance.h"

#include <pthread.h>
#include <stdatomic.h>

extern const instance_calls CALLS;

// ---- what the parts of calls share

#define MAX_METRICS 65536 // families and metrics of one worker

// An entry is a metric family, a metric of one, or free (both NULL). Its number is its index + 1.
typedef struct metric_entry {
  TRITONSERVER_MetricFamily *family;
  TRITONSERVER_Metric *metric;
  uint64_t of; // for a metric: its family's number
} metric_entry;

typedef struct metric_table {
  metric_entry *entries;
  size_t count;
  size_t room;
} metric_table;

typedef struct calls {
  refcount references;
  TRITONSERVER_Server *server;
  python_backend *backend; // holds a reference
  TRITONSERVER_ResponseAllocator *allocator;
  worker_link *link;
  python_instance *instance; // invalid once `ended`
  char *where;
  metric_table metrics; // only the listener's thread
  atomic_bool ended;
  pthread_mutex_t lock; // guards what follows
  list inferences;      // open infer_calls
  unsigned model_calls; // running threads of model_control.c
} calls;

calls *calls_ref(calls *self);
void calls_unref(calls *self);

// --- Replies. Nothing is sent when the worker has gone. Any thread.

void calls_send(calls *self, const channel_message *reply);
void calls_reply(calls *self, const channel_message *call, uint64_t value);
void calls_reply_part(calls *self, const channel_message *call, control_part_write *write,
                      const void *what);
// Sends `reply` with the error as its control part, written by `write`.
void calls_send_error(calls *self, channel_message reply, control_part_write *write,
                      TRITONSERVER_Error *error_owned);
void calls_reply_error(calls *self, const channel_message *call, TRITONSERVER_Error *error_owned);

// Reads a text of the control part, NUL-terminated, for free(). NULL when it is bad, contains a
// NUL, or memory is short.
char *calls_text(wire_reader *reader);

// --- The kinds of calls. The listener's thread.

typedef void call_handler(calls *self, const channel_message *message, wire_reader *control);
call_handler infer_call_start, infer_call_cancel, infer_call_wait, metric_call, model_control_start;

void infer_calls_cancel_all(calls *self); // with the lock held
TRITONSERVER_Error *infer_allocator_new(TRITONSERVER_ResponseAllocator **made);

// Deletes all metrics and families.
void metric_table_fini(metric_table *self);

#endif
