// What a worker prints: a pipe cut into lines. On the process's thread.
#ifndef NEREID_PYTHON_OUTPUT_H
#define NEREID_PYTHON_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
