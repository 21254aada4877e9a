// One worker process as the system sees it: how it is started, what it prints, how it ended. The
// supervisor owns the descriptors and looks at them; see supervisor.h. What is started is the
// launcher, which stays as the worker's guard and ends as the worker did (launcher/guard.c).
#ifndef NEREID_PYTHON_START_H
#define NEREID_PYTHON_START_H

#include "process/output.h"
#include "process/placement.h"

#include "triton/core/tritonserver.h"

#include <signal.h>
#include <sys/types.h>

// What is started: an argument vector whose first entry is a path, an environment, the descriptor
// that becomes PROTOCOL_SOCKET in the process, and where it is to be. Borrowed, but for what takes
// lines.
typedef struct worker_command {
  char *const *arguments;
  char *const *environment;
  int socket;
  const worker_placement *placement;
  worker_output_line *take_line; // of what it prints
  void *user;
} worker_command;

typedef enum process_state {
  PROCESS_NONE, // not started
  PROCESS_RUNNING,
  PROCESS_KILLED,  // the server has had it killed
  PROCESS_CUT_OFF, // the same, after it had let go of its connection
  PROCESS_ENDED    // reaped
} process_state;

typedef struct worker_process {
  process_state state;
  pid_t id;
  int handle;                  // pidfd
  int64_t out_of_memory_kills; // of the system, when it started; -1: not known
  worker_output output[2];     // stdout, stderr
} worker_process;

// Starts the launcher in a session of its own, with no descriptor but stdin (/dev/null), stdout,
// stderr and the socket. The supervisor's thread.
TRITONSERVER_Error *worker_process_start(worker_process *self, const worker_command *command);

// Has the guard end the worker and all that it has started; the first reason, PROCESS_KILLED or
// PROCESS_CUT_OFF, is kept. It must not have been reaped yet.
void worker_process_kill(worker_process *self, process_state why);

// After the pidfd became readable: reads what is left in the pipes, reaps the process. Gives how it
// ended, e.g. "it was ended by signal SIGKILL", for free(). NULL when it has not ended.
char *worker_process_reap(worker_process *self);

#endif
