// SPDX-License-Identifier: Apache-2.0
// The program that starts a Python worker. It becomes two processes: the guard stays and sees to it
// that all ends with the worker; the other gives up what a worker does not need, then runs the
// interpreter in its place. It runs before the model's code and trusts only its command line. Each
// step succeeds or ends the program with one line on stderr.
#ifndef NEREID_PYTHON_LAUNCHER_H
#define NEREID_PYTHON_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// At level strict the worker's temporary directory is mounted here: every machine has it, and
// libraries expect to write there.
#define LAUNCHER_SCRATCH "/dev/shm"

// A bound that is not set: what the server has.
#define LAUNCHER_AS_SERVER UINT64_MAX

typedef struct launcher_paths {
  const char **items;
  size_t count;
} launcher_paths;

typedef struct launcher_options {
  bool strict;
  pid_t parent;           // the server; 0: not checked
  pid_t guard;            // from launcher_stay_as_guard on
  launcher_paths read;    // strict: what may be read and executed
  launcher_paths devices; // strict: what may be read and written, such as a GPU
  uint64_t processes;     // and threads
  uint64_t descriptors;   // of one process
  uint64_t memory_bytes;  // of one process, as RLIMIT_DATA counts
  uint64_t file_bytes;    // of one file
  uint64_t scratch_bytes; // strict: the temporary directory
  char **command;         // NULL-terminated
} launcher_options;

// ---- steps, in this order

// Returns in the process that becomes the program. The other one stays, and ends as the program
// did.
void launcher_stay_as_guard(launcher_options *options);

void launcher_enter_group(const launcher_options *options); // control group of processes
void launcher_set_limits(const launcher_options *options);  // rlimits, out-of-memory order, umask
void launcher_enter_namespaces(const launcher_options *options); // strict
void launcher_hide_passwords(const launcher_options *options);   // standard, as root
void launcher_restrict_files(const launcher_options *options);   // Landlock
void launcher_drop_capabilities(const launcher_options *options);
void launcher_filter_calls(const launcher_options *options); // seccomp

// ---- for other steps

// Has the kernel send the signal when the parent ends; ends the program when it has ended before.
void launcher_end_with(pid_t parent, int number);

// Removes the control group of the server's workers, if nothing is in it any more.
void launcher_remove_group(const launcher_options *options);

#endif
