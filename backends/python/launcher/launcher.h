// SPDX-License-Identifier: Apache-2.0
// The program that starts a Python worker. It becomes two processes. The guard stays and makes sure
// that everything ends with the worker. The other gives up privileges and becomes the interpreter.
// It runs before the model's code and trusts only its command line. Each step succeeds or ends the
// program with one line on stderr.
#ifndef NEREID_PYTHON_LAUNCHER_H
#define NEREID_PYTHON_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// At level strict the worker's temporary directory is mounted here: the path exists on every
// machine, and libraries expect to write there.
#define LAUNCHER_SCRATCH "/dev/shm"

// Bound not set: use the server's.
#define LAUNCHER_AS_SERVER UINT64_MAX

typedef struct launcher_paths {
  const char **items;
  size_t count;
} launcher_paths;

typedef struct launcher_options {
  bool strict;
  pid_t parent;           // the server; 0: not checked
  pid_t guard;            // set by launcher_stay_as_guard
  launcher_paths read;    // strict: may be read and executed
  launcher_paths devices; // strict: may be read and written, such as a GPU
  uint64_t processes;     // and threads
  uint64_t descriptors;   // of one process
  uint64_t memory_bytes;  // of one process, as RLIMIT_DATA counts
  uint64_t file_bytes;    // of one file
  uint64_t scratch_bytes; // strict: the temporary directory
  char **command;         // NULL-terminated
} launcher_options;

// ---- steps, in this order

// Returns in the process that becomes the program. The other process stays as the guard, and ends
// the way the program did.
void launcher_stay_as_guard(launcher_options *options);

void launcher_enter_group(const launcher_options *options); // control group of processes
void launcher_set_limits(const launcher_options *options);  // rlimits, out-of-memory order, umask
void launcher_enter_namespaces(const launcher_options *options); // strict
void launcher_hide_passwords(const launcher_options *options);   // standard, as root
void launcher_restrict_files(const launcher_options *options);   // Landlock
void launcher_drop_capabilities(const launcher_options *options);
void launcher_filter_calls(const launcher_options *options); // seccomp

// ---- helpers of steps

// Makes the kernel send the signal when the parent ends. Ends the program when the parent has
// already ended.
void launcher_end_with(pid_t parent, int number);

// Removes the control group of the server's workers if it is empty.
void launcher_remove_group(const launcher_options *options);

#endif
