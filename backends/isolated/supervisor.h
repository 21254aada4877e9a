// SPDX-License-Identifier: Apache-2.0
// Keeps one process of a model alive: starts it, handles its later messages, answers its requests
// when it ends, restarts it with growing pauses, and replaces it when it has grown beyond its
// limit.
//
// States: READY → REPLACING → STARTING → READY. A failure leads from each of these to DOWN, and
// after a pause to STARTING. STOPPED from any. Executions wait while it starts or is replaced, but
// not through a pause. Any thread.
#ifndef NEREID_ISOLATED_SUPERVISOR_H
#define NEREID_ISOLATED_SUPERVISOR_H

#include "child.h"

typedef struct supervisor supervisor;

typedef struct supervisor_settings {
  TRITONBACKEND_Model *model;
  const char *program;   // nereid-model-host
  const char *library;   // libtritonserver.so
  uint64_t memory_limit; // of the process; 0: none
  bool keeps_sequences;  // its sequences' states are lost when it ends
} supervisor_settings;

// Starts the first process and its thread. `*completed`, for free(), is the model's configuration.
TRITONSERVER_Error *supervisor_start(const supervisor_settings *settings, supervisor **started,
                                     char **completed);
// No execution may be open. NULL does nothing.
void supervisor_stop(supervisor *self);

// Adds the model's instances in order, before the first execution.
TRITONSERVER_Error *supervisor_add_instance(supervisor *self, const char *name,
                                            TRITONBACKEND_ModelInstance *instance, uint32_t *index);

// Call it before the instance is freed, when the model is being unloaded.
void supervisor_remove_instance(supervisor *self, uint32_t index);

// The `life` of the process that gets the next execution.
uint64_t supervisor_life(supervisor *self);

// The process for an execution; call supervisor_leave afterwards. False: there is none now, and
// *error says why. With `error` NULL it does not wait for a process.
bool supervisor_enter(supervisor *self, isolated_child **child, TRITONSERVER_Error **error);
void supervisor_leave(isolated_child *child_owned);

// The process breaks the protocol or its channel: kills it.
void supervisor_end_child(supervisor *self, isolated_child *child, const char *why);

TRITONSERVER_Error *supervisor_check_ready(supervisor *self, uint32_t index);
bool supervisor_has_fault(supervisor *self, char *text, size_t size);
void supervisor_forward_cancels(supervisor *self);

// Bytes of memory of the process. All instances share it, so it is reported for the model's first
// instance only. 0: no process now. May take milliseconds.
uint64_t supervisor_memory(supervisor *self, uint32_t index);

#endif
