// What a worker prints: lines of a pipe become lines of the log, with the name of the instance.
// Used on the supervisor's thread.
#ifndef NEREID_PYTHON_WORKER_OUTPUT_H
#define NEREID_PYTHON_WORKER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

enum {
  WORKER_LINE_MOST = 8192 // bytes; what is longer is cut
};

typedef struct worker_output {
  int descriptor; // -1: closed
  char *name;     // begins the lines
  char *line;     // WORKER_LINE_MOST bytes; the line so far
  size_t length;
  bool cut;       // the rest of the line is passed over
  char last[200]; // the last line that was not empty, for the cause of an end
} worker_output;

// Takes `descriptor`, non-blocking. False: no memory; the descriptor stays the caller's.
bool worker_output_init(worker_output *self, int descriptor, const char *name);
void worker_output_fini(worker_output *self);

// Reads a piece of what is there and logs the lines in it. False when the pipe has ended or failed.
bool worker_output_read(worker_output *self);

// Reads what is left, but no more than a pipe can hold, and logs a last line that has no end.
void worker_output_drain(worker_output *self);

#endif
