// SPDX-License-Identifier: Apache-2.0
// One process of a model, from start to end: its channels, its requests, the questions to it. The
// next process is another child. Any thread.
#ifndef NEREID_ISOLATED_CHILD_H
#define NEREID_ISOLATED_CHILD_H

#include "base/refcount.h"
#include "channel.h"
#include "isolated/isolated_protocol.h"
#include "open_requests.h"
#include "process/process.h"

#include <stdatomic.h>

// Settings shared by all processes of a model. Borrowed.
typedef struct child_settings {
  const char *model;
  uint64_t version;
  char *const *arguments;
  const char *description;  // NEREID_ModelDescribe
  const char *config;       // before completion
  bool keeps_sequences;     // its sequences' states are lost when it ends
  void (*tick)(void *user); // the timer has expired; on the process's thread
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
  uint64_t life; // its number among the model's processes: 1, 2, …
  open_requests requests;
  pthread_mutex_t question; // held while a question is asked and answered
  uint64_t questions;       // asked so far
  bool asks_ready;          // its backend has TRITONBACKEND_ModelInstanceReady
  _Atomic uint32_t executing;
  pthread_mutex_t lock; // guards all below
  pthread_cond_t changed;
  bool ended;
  char *cause; // of the end
  child_instance *instances;
  uint32_t instance_count;
} isolated_child;

// Starts a process and makes it load the model. `*completed`, for free(), is the model's
// configuration.
TRITONSERVER_Error *child_start(const child_settings *settings, int timer, isolated_child **started,
                                char **completed);

isolated_child *child_ref(isolated_child *self);
void child_unref(isolated_child *self); // NULL does nothing

// Makes the process start an instance's thread.
TRITONSERVER_Error *child_attach(isolated_child *self, const char *name,
                                 TRITONBACKEND_ModelInstance *instance);

// The instance is gone: nothing is reported for it any more.
void child_forget_instance(isolated_child *self, uint32_t index);

// The ring of instance `index`; it lives as long as the child.
channel *child_ring(isolated_child *self, uint32_t index);

TRITONSERVER_Error *child_check_ready(isolated_child *self, uint32_t index);

// Tells the process which requests were cancelled.
void child_forward_cancels(isolated_child *self);
// Gives a request back to the open ones, and tells the process about cancellations made meanwhile.
void child_give_back(isolated_child *self, open_request *r);

// Makes the backend finalize the model and the process exit; kills it after some seconds.
void child_finalize(isolated_child *self);

void child_kill(isolated_child *self);
// Ends all waits for the process.
void child_close(isolated_child *self);
void child_await_end(isolated_child *self);

// An error with `code` that says how it ended.
TRITONSERVER_Error *child_why_gone(isolated_child *self, TRITONSERVER_Error_Code code);

// Bytes of the process's private memory without files; 0: unknown.
uint64_t child_memory(isolated_child *self);

#endif
