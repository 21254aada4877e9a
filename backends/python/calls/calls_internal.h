// What the parts of calls share; see calls.h.
#ifndef NEREID_PYTHON_CALLS_INTERNAL_H
#define NEREID_PYTHON_CALLS_INTERNAL_H

#include "calls/metric_call.h"
#include "codec/protocol.h"
#include "codec/tensor_wire.h"
#include "instance/python_instance.h"

#include <pthread.h>
#include <stdatomic.h>

struct infer_call;

typedef struct calls {
  atomic_uint references;
  TRITONSERVER_Server *server;
  python_backend *backend; // counts it
  TRITONSERVER_ResponseAllocator *allocator;
  worker_link *link;
  python_instance *instance; // gone when `ended`
  char *where;
  metric_table metrics; // the listener's thread
  pthread_mutex_t lock; // guards what follows
  bool ended;
  struct infer_call *inferences; // under way
  unsigned model_calls;          // threads of model_control.c
} calls;

calls *calls_ref(calls *self);
void calls_unref(calls *self);

// Whether the worker is gone, so that nobody waits for a reply.
bool calls_have_ended(calls *self);

// --- Replies, unless the worker is gone. Any thread.

void calls_reply(calls *self, const channel_message *call, uint64_t value);
void calls_reply_part(calls *self, const channel_message *call, control_part_write *write,
                      const void *what);
// With `error_owned` NULL a plain reply.
void calls_reply_error(calls *self, const channel_message *call, TRITONSERVER_Error *error_owned);

// A text of the control part, terminated, for free(). NULL when it is bad, has a NUL, or memory is
// short.
char *calls_text(wire_reader *reader);

// --- The kinds of calls

void infer_call_start(calls *self, const channel_message *message, wire_reader *control);
void infer_call_cancel(calls *self, uint64_t id);
void infer_call_wait(calls *self, const channel_message *message, wire_reader *control);
void infer_calls_cancel_all(calls *self); // with the lock held

TRITONSERVER_Error *infer_allocator_new(TRITONSERVER_ResponseAllocator **made);

void model_control_start(calls *self, const channel_message *message, wire_reader *control);

#endif
