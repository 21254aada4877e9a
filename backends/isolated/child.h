// SPDX-License-Identifier: Apache-2.0
// One process of a model, from its start to its end: its channels, the requests that it has, what
// it is asked. The next process is another child. Any thread.
#ifndef NEREID_ISOLATED_CHILD_H
#define NEREID_ISOLATED_CHILD_H

#include "base/refcount.h"
#include "channel.h"
#include "isolated/protocol.h"
#include "open_requests.h"
#include "process/process.h"

#include <stdatomic.h>

// What all processes of a model have in common. Borrowed.
typedef struct child_settings {
  const char *model;
  uint64_t version;
  char *const *arguments;
  const char *description;  // NEREID_ModelDescribe
  const char *config;       // before it was completed
  bool keeps_sequences;     // what it knows of sequences ends with it
  void (*tick)(void *user); // its timer has run out; on the process's thread
  void *user;
} child_settings;

// An instance in this process.
typedef struct child_instance {
  TRITONBACKEND_ModelInstance *instance; // NULL: gone
  channel *ring;
} child_instance;

typedef struct isolated_child {
  refcount references;
  const child_settings *settings;
  channel *channel; // the model's
  worker_process *process;
  int socket;
  int timer;
  uint64_t life; // its number among the model's: 1, 2, …
  open_requests requests;
  pthread_mutex_t question; // held by who asks
  uint64_t questions;       // so many were asked
  bool asks_ready;          // its backend can be asked whether an instance is ready
  _Atomic uint32_t executing;
  pthread_mutex_t lock; // guards what follows
  pthread_cond_t changed;
  bool ended;
  char *cause; // of the end
  child_instance *instances;
  uint32_t instance_count;
} isolated_child;

// Starts a process and has it load the model. `*completed`, for free(), is the model's
// configuration.
TRITONSERVER_Error *child_start(const child_settings *settings, int timer, isolated_child **started,
                                char **completed);

isolated_child *child_ref(isolated_child *self);
void child_unref(isolated_child *self); // NULL does nothing

// Has it start the thread of an instance.
TRITONSERVER_Error *child_attach(isolated_child *self, const char *name,
                                 TRITONBACKEND_ModelInstance *instance);

// It is gone: nothing is reported for it any more.
void child_forget_instance(isolated_child *self, uint32_t index);

// The ring of the instance `index`; it lives as long as the child.
channel *child_ring(isolated_child *self, uint32_t index);

TRITONSERVER_Error *child_check_ready(isolated_child *self, uint32_t index);

// Tells the process which requests were cancelled.
void child_forward_cancels(isolated_child *self);
// Gives a request back to those that are open, and tells the process what was cancelled meanwhile.
void child_give_back(isolated_child *self, open_request *r);

// Has the backend finalize the model and the process exit; kills it when that takes longer than
// some seconds.
void child_finalize(isolated_child *self);

void child_kill(isolated_child *self);
// Lets all who wait for it return.
void child_close(isolated_child *self);
void child_await_end(isolated_child *self);

// How it ended, as an error with `code`.
TRITONSERVER_Error *child_why_gone(isolated_child *self, TRITONSERVER_Error_Code code);

// Bytes of memory that are the process's own and no file's; 0: not known.
uint64_t child_memory(isolated_child *self);

#endif
