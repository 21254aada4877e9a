// The thread that starts worker processes, logs what they print and sees them end: one for each
// loaded backend. Processes are started here and nowhere else, since a parent-death signal comes
// when the thread that started a process ends. It sleeps when there is nothing to do.
#ifndef NEREID_PYTHON_SUPERVISOR_H
#define NEREID_PYTHON_SUPERVISOR_H

#include "process/start.h"

typedef struct supervisor supervisor;
typedef struct supervised supervised; // one process

// All are called on the supervisor's thread and must be quick.
typedef struct supervised_events {
  // A line that it printed.
  worker_output_line *line;
  // The process has ended and is reaped. The last call for it. `cause` is for free().
  void (*ended)(void *user, char *cause);
  // Nothing was touched (supervisor_touch) for about a second after something was.
  void (*quiet)(void *user);
} supervised_events;

TRITONSERVER_Error *supervisor_new(supervisor **made);

// All processes must have ended.
void supervisor_free(supervisor *self);

// Starts a process and waits until it is started or failed. Who takes its lines is in `events`.
// `user` must stay until `ended` was called, and so must `connection`, the other end of the
// command's socket: a process that lets go of it is ended. The caller owns the handle. Any thread
// but the supervisor's.
TRITONSERVER_Error *supervisor_start(supervisor *self, const worker_command *command,
                                     int connection, const supervised_events *events, void *user,
                                     supervised **started);

// Ends the process and all that it has started, if it has not ended. Any thread.
void supervised_kill(supervised *process);

// Gives up the handle; the process goes on. NULL does nothing.
void supervised_release(supervised *process);

// Asks for `quiet` calls. Cheap. Any thread.
void supervisor_touch(supervisor *self);

#endif
