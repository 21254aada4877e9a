// SPDX-License-Identifier: Apache-2.0
// One process that a backend has started, and the thread that has started it and sees to it until
// it has ended: the kernel ends a process with the thread that started it, if that asked for it. Of
// a Python worker what is started is the launcher, which stays as the worker's guard and ends as
// the worker did (backends/python/launcher/guard.c).
#ifndef NEREID_BACKEND_PROCESS_H
#define NEREID_BACKEND_PROCESS_H

#include "triton/core/tritonserver.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

// ---- what it prints: a pipe cut into lines. On the process's thread.

enum {
  MAX_WORKER_LINE = 8192 // bytes; what is longer is cut
};

// Takes a line without its end. `cut`: it was longer than MAX_WORKER_LINE.
typedef void worker_output_line(void *user, const char *text, size_t length, bool cut);

typedef struct worker_output {
  int descriptor; // non-blocking; -1: closed
  worker_output_line *take_line;
  void *user;
  size_t length;  // of the line so far
  bool cut;       // the rest of the line is passed over
  char last[200]; // the last line that was not empty, for the cause of an end
  char line[MAX_WORKER_LINE];
} worker_output;

// Reads a piece of what is there and gives the lines in it. False when the pipe has ended or
// failed; then it is closed.
bool worker_output_read(worker_output *self);

// Reads what is left, but no more than a pipe can hold, gives a last line that has no end, and
// closes the pipe, unless it is closed.
void worker_output_end(worker_output *self);

// ---- the process

typedef struct worker_process worker_process;

#define PROCESS_SOCKET 3 // the descriptor that a process has beside stdin, stdout and stderr

// What is started: an argument vector whose first entry is a path, an environment, and the
// descriptor that becomes PROCESS_SOCKET in the process. Borrowed until it is started.
typedef struct worker_command {
  const char *what;   // for texts, e.g. "a Python worker"; a constant
  const char *thread; // the name of its thread
  int kill_signal;    // that ends it
  char *const *arguments;
  char *const *environment;
  int socket;
  // Of the caller, until `ended`: the other end of `socket` (a process that lets go of it is
  // ended; -1: it is not watched, as where nobody can tell that from the process's own end), and a
  // timer.
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

// Sends it the signal that ends it, if it has not ended. Any thread.
void worker_process_kill(worker_process *self);

// For /proc: another process's once it has ended.
int worker_process_id(const worker_process *self);

// Waits for its end. NULL does nothing. Not on its thread.
void worker_process_free(worker_process *self);

#endif
