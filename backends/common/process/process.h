// SPDX-License-Identifier: Apache-2.0
// One process started by a backend, with the thread that starts and watches it. The thread stays
// until the process has ended, because the kernel ends a process with the thread that started it if
// the process asked for that. For a Python worker the process is the launcher, which stays as the
// worker's guard and ends the way the worker did (backends/python/launcher/guard.c).
#ifndef NEREID_BACKEND_PROCESS_H
#define NEREID_BACKEND_PROCESS_H

#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// ---- its output: a pipe cut into lines. On the process's thread.

#define MAX_WORKER_LINE 8192 // bytes; the rest of a longer line is dropped

// Called with a line without its end. `cut`: the line was longer than MAX_WORKER_LINE.
typedef void worker_output_line(void *user, const char *text, size_t length, bool cut);

typedef struct worker_output {
  int descriptor; // non-blocking; -1: closed
  worker_output_line *take_line;
  void *user;
  size_t length;  // of the line so far
  bool cut;       // the rest of the line is skipped
  char last[200]; // the last non-empty line, which may explain an end
  char line[MAX_WORKER_LINE];
} worker_output;

// Reads what is available and passes on the lines in it. False when the pipe has ended or failed;
// then it is closed.
bool worker_output_read(worker_output *self);

// Reads the rest, but no more than a pipe can hold, passes on a last line without an end, and
// closes the pipe. Does nothing when it is closed.
void worker_output_end(worker_output *self);

// ---- the process

typedef struct worker_process worker_process;

#define PROCESS_SOCKET 3 // the process's descriptor beside stdin, stdout and stderr

// The program to start: an argument vector whose first entry is a path, an environment, and the
// descriptor that becomes PROCESS_SOCKET in the process. Borrowed until it is started.
typedef struct worker_command {
  const char *what;   // for texts, e.g. "a Python worker"; a constant
  const char *thread; // the name of its thread
  int kill_signal;    // the signal that ends it
  char *const *arguments;
  char *const *environment;
  int socket;
  // Belongs to the caller until `ended`. `connection` is the other end of `socket`: a process that
  // closes it is ended. -1: not watched, where the closing cannot be told from the process's own
  // end.
  int connection;
  int timer;
} worker_command;

// Called on the process's thread.
typedef struct process_events {
  worker_output_line *line;             // the process printed a line
  void (*timer)(void *user, int timer); // the timer has expired
  // The process has ended and is reaped. The last call. `cause`, for free(), says how, e.g. "it was
  // ended by signal SIGKILL"; NULL: no memory.
  void (*ended)(void *user, char *cause);
} process_events;

// Starts the process in a session of its own, with no descriptors except stdin (/dev/null), stdout,
// stderr and the socket. It inherits the caller's processors and memory policy. Waits until the
// process is started, or failed.
TRITONSERVER_Error *worker_process_start(const worker_command *command,
                                         const process_events *events, void *user,
                                         worker_process **started);

// Sends its kill signal, if it has not ended. Any thread.
void worker_process_kill(worker_process *self);

// For /proc. After the process has ended, the number may belong to another process.
int worker_process_id(const worker_process *self);

// Waits until the process has ended. NULL does nothing. Not on the process's thread.
void worker_process_free(worker_process *self);

#endif
