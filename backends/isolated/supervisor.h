// SPDX-License-Identifier: Apache-2.0
// Keeps one process of a model alive: starts it, serves what it says later, answers for it when it
// ends, starts the next one with growing pauses, and replaces one that has grown beyond its limit.
//
// States: READY → REPLACING → STARTING → READY, DOWN from each of these after a failure and
// STARTING after its pause, and STOPPED from any.
// Executions wait while it starts or is replaced, but not through a pause. Any thread.
#ifndef NEREID_ISOLATED_SUPERVISOR_H
#define NEREID_ISOLATED_SUPERVISOR_H

#include "child.h"

typedef struct supervisor supervisor;

typedef struct supervisor_settings {
  TRITONBACKEND_Model *model;
  const char *program;   // nereid-model-host
  const char *library;   // libtritonserver.so
  uint64_t memory_limit; // of the process; 0: none
  bool keeps_sequences;  // what it knows of sequences ends with it
} supervisor_settings;

// Starts the first process and its thread. `*completed`, for free(), is the model's configuration.
TRITONSERVER_Error *supervisor_start(const supervisor_settings *settings, supervisor **started,
                                     char **completed);
// Nothing may be under way. NULL does nothing.
void supervisor_stop(supervisor *self);

// The model's instances, in their order. Before the first execution.
TRITONSERVER_Error *supervisor_add_instance(supervisor *self, const char *name,
                                            TRITONBACKEND_ModelInstance *instance, uint32_t *index);

// Before the instance is gone, as the model will be.
void supervisor_remove_instance(supervisor *self, uint32_t index);

// The `life` of the process that gets the next execution.
uint64_t supervisor_life(supervisor *self);

// The process, for an execution; supervisor_leave must follow. False: there is none now, and with
// `error` (else it is not waited for one) why.
bool supervisor_enter(supervisor *self, isolated_child **child, TRITONSERVER_Error **error);
void supervisor_leave(isolated_child *child_owned);

// The process breaks the rules, or its channel: has it ended.
void supervisor_end_child(supervisor *self, isolated_child *child, const char *why);

TRITONSERVER_Error *supervisor_check_ready(supervisor *self, uint32_t index);
bool supervisor_has_fault(supervisor *self, char *text, size_t size);
void supervisor_forward_cancels(supervisor *self);

// Bytes that the process takes, as the instance's that is the model's first one: it is all
// instances', and counts once. 0: there is no process now. May take milliseconds.
uint64_t supervisor_memory(supervisor *self, uint32_t index);

#endif
