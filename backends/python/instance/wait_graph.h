// SPDX-License-Identifier: Apache-2.0
// Who waits for whom: the calls of models that workers have made, and which of them an execution
// waits for. A wait that would close a circle is refused with a text that names the circle. One
// graph for the whole library, since circles go through its backends. Any thread.
//
// docs/internals/python_worker.md says what counts as a circle.
#ifndef NEREID_PYTHON_WAIT_GRAPH_H
#define NEREID_PYTHON_WAIT_GRAPH_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct TRITONBACKEND_Model;

typedef enum wait_kind {
  WAIT_NONE,
  WAIT_THREAD,   // the worker's thread of execute waits, and does nothing else meanwhile
  WAIT_COROUTINE // the coroutine of one execution does
} wait_kind;

// An instance that is given requests. Guarded by the graph's lock.
typedef struct wait_node {
  const struct TRITONBACKEND_Model *model;
  const char *name; // of the model
  uint64_t version;
  list_node in_graph;          // while it has joined
  list calls;                  // that its worker has under way, while it has joined
  struct wait_call *waits_for; // that of kind WAIT_THREAD, if any
} wait_node;

// A call of a model, in its infer_call. Guarded by the graph's lock.
typedef struct wait_call {
  list_node under_way;                      // of its node
  struct wait_call *next_in_bucket;         // by `request`
  wait_node *node;                          // whose worker made it; NULL: not in the graph
  const void *request;                      // NULL: not with the server
  const struct TRITONBACKEND_Model *target; // NULL: unknown
  wait_node *at;         // the instance that was given it; NULL: none, or none that we know
  uint64_t at_execution; // there
  wait_kind kind;
  uint64_t execution; // that waits
  bool is_shared;     // other threads may answer that execution's requests meanwhile
  uint64_t replies;   // that have come
  bool is_refused;
  bool is_stuck; // while circles are looked for; like what follows
  struct wait_call *path;
  unsigned distance; // from the wait that closes the circle, + 1; 0: not known
} wait_call;

// `self` has its first three members set.
void wait_graph_join(wait_node *self);
void wait_graph_leave(wait_node *self);

// The worker is gone, with all that it had under way. It may not have joined; like below.
void wait_graph_forget(wait_node *self);

// A call is about to be submitted as `request`, for an instance of `target`. The server's requests
// and the backend's are the same objects. Where `node` has not joined, nobody waits for it, and the
// call is not in the graph.
void wait_graph_open(wait_call *self, wait_node *node, const void *request,
                     const struct TRITONBACKEND_Model *target);

// `execution` of the call's worker waits for the next reply, after `seen` of them. Not NULL: it
// would wait for itself; a text for free() says how. The call is refused then: its replies are not
// to be sent any more.
char *wait_graph_wait(wait_call *self, wait_kind kind, uint64_t execution, bool is_shared,
                      uint64_t seen);

// Before a reply is sent; the `final` one takes the call out of the graph. False: it is refused.
bool wait_graph_reply(wait_call *self, bool final);

// The server has given the request back.
void wait_graph_released(wait_call *self);

// `node` is given `request`, in its `execution`. Not NULL: the request is a call that would wait
// for itself there, and must be answered with that text, which is for free().
char *wait_graph_give(wait_node *node, uint64_t execution, const void *request);

// Whether execute's thread waits for a reply.
bool wait_graph_is_waiting(const wait_node *self);

#endif
