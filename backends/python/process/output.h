// What a worker prints: a pipe cut into lines. Used on the supervisor's thread.
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
  int descriptor; // -1: closed
  worker_output_line *take_line;
  void *user;
  char *line; // MAX_WORKER_LINE bytes; the line so far
  size_t length;
  bool cut;       // the rest of the line is passed over
  char last[200]; // the last line that was not empty, for the cause of an end
} worker_output;

// Takes `descriptor`, non-blocking. False: no memory; the descriptor stays the caller's.
bool worker_output_init(worker_output *self, int descriptor, worker_output_line *take_line,
                        void *user);
void worker_output_fini(worker_output *self);

// Reads a piece of what is there and gives the lines in it. False when the pipe has ended or
// failed.
bool worker_output_read(worker_output *self);

// Reads what is left, but no more than a pipe can hold, and gives a last line that has no end.
void worker_output_drain(worker_output *self);

#endif
