// One worker process, and the thread that has started it and sees to it until it has ended: the
// kernel ends a process with the thread that started it. What is started is the launcher, which
// stays as the worker's guard and ends as the worker did (launcher/guard.c).
#ifndef NEREID_PYTHON_PROCESS_H
#define NEREID_PYTHON_PROCESS_H

#include "process/output.h"

#include "triton/core/tritonserver.h"

typedef struct worker_process worker_process;

// What is started: an argument vector whose first entry is a path, an environment, and the
// descriptor that becomes PROTOCOL_SOCKET in the process. Borrowed until it is started.
typedef struct worker_command {
  char *const *arguments;
  char *const *environment;
  int socket;
  // Of the caller, until `ended`: the other end of `socket` (a process that lets go of it is
  // ended), and a timer.
  int connection;
  int timer;
} worker_command;

// On the process's thread.
typedef struct process_events {
  worker_output_line *line;             // that it printed
  void (*timer)(void *user, int timer); // has run out
  // The process has ended and is reaped. The last call for it. `cause`, for free(), says how, e.g.
  // "it was ended by signal SIGKILL"; NULL: no memory.
  void (*ended)(void *user, char *cause);
} process_events;

// Starts it in a session of its own, with no descriptor but stdin (/dev/null), stdout, stderr and
// the socket; it runs, and takes memory from, where the calling thread does. Waits until it is
// started, or failed.
TRITONSERVER_Error *worker_process_start(const worker_command *command,
                                         const process_events *events, void *user,
                                         worker_process **started);

// Has the guard end the worker and all that it has started, if it has not ended. Any thread.
void worker_process_kill(worker_process *self);

// Waits for its end. NULL does nothing. Not on its thread.
void worker_process_free(worker_process *self);

#endif
