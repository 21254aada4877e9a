// SPDX-License-Identifier: Apache-2.0
// A server as a program that embeds it has it, for tests: a repository in a temporary directory
// with models of real backends, a server on it, requests and their answers. What goes wrong ends
// the test.
#ifndef NEREID_TESTS_EMBEDDED_SERVER_H
#define NEREID_TESTS_EMBEDDED_SERVER_H

#include "triton/core/tritonserver.h"

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

// ---- the repository: one of each test (setup and teardown) ----

extern char root[];
int make_root(void **state);
int remove_root(void **state);

// Below the root.
void make_dir(const char *relative);
void remove_dir(const char *relative);
// Writes a file whose time is `seconds` after 1970, so that no test depends on how fast it runs.
void write_file(const char *relative, const char *text, time_t seconds);
void touch_far_ahead(const char *relative);

#define IDENTITY_TENSORS                                                                           \
  "input { name: 'INPUT0' data_type: TYPE_INT32 dims: [ -1 ] }"                                    \
  "output { name: 'OUTPUT0' data_type: TYPE_INT32 dims: [ -1 ] }"

void make_identity(const char *name, const char *more);
void make_faulty(const char *name, const char *fault);

// ---- servers ----

void ok(TRITONSERVER_Error *e);
// `part`: of the message.
void fails(TRITONSERVER_Error *e, TRITONSERVER_Error_Code code, const char *part);
// The options are the caller's, until start_with() takes them.
TRITONSERVER_ServerOptions *options_for(TRITONSERVER_ModelControlMode mode,
                                        const char *startup_model);
TRITONSERVER_Server *start_with(TRITONSERVER_ServerOptions *options);
TRITONSERVER_Server *start_explicit(void);
bool is_ready(TRITONSERVER_Server *server);
bool model_is_ready(TRITONSERVER_Server *server, const char *name, int64_t version);
// Takes the message.
void expect_json(TRITONSERVER_Message *message, const char *text);
void expect_index(TRITONSERVER_Server *server, const char *text);
// Waits for a state that the reaper brings about.
void await_index(TRITONSERVER_Server *server, const char *text);

// ---- requests ----

typedef struct answer {
  sem_t done;
  sem_t released;
  bool failed;
  char text[256];
  int32_t value;
} answer;

// Of a group of tests.
int make_allocator(void **state);
int free_allocator(void **state);

// Sends one INT32 and waits for the answer. NULL when the server took it.
TRITONSERVER_Error *ask(TRITONSERVER_Server *server, const char *model, int32_t value, answer *a);
// The same as a request of a sequence.
TRITONSERVER_Error *ask_sequence(TRITONSERVER_Server *server, const char *model, int32_t value,
                                 uint64_t sequence, uint32_t flags, answer *a);
// The same, with the attributes of the value's buffer; NULL: memory of the CPU.
TRITONSERVER_Error *ask_with(TRITONSERVER_Server *server, const char *model, int32_t value,
                             uint64_t sequence, uint32_t flags,
                             TRITONSERVER_BufferAttributes *attributes, answer *a);
void expect_answer(TRITONSERVER_Server *server, const char *model, int32_t value);

#endif
