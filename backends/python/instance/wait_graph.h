// SPDX-License-Identifier: Apache-2.0
// Tracks the calls of models that workers have made, and which of them an execution waits for. A
// wait that would close a circle is refused with a text that describes the circle. One graph for
// the whole library, since circles cross the backends that it serves. Any thread.
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
  WAIT_THREAD,   // execute's thread in the worker waits, and does nothing else meanwhile
  WAIT_COROUTINE // the coroutine of one execution waits
} wait_kind;

// An instance that receives requests. Guarded by the graph's lock.
typedef struct wait_node {
  const struct TRITONBACKEND_Model *model;
  const char *name; // of the model
  uint64_t version;
  list_node in_graph;          // membership in the graph
  list calls;                  // open calls of its worker, while it is in the graph
  struct wait_call *waits_for; // its call of kind WAIT_THREAD, if any
} wait_node;

// A call of a model, in its infer_call. Guarded by the graph's lock.
typedef struct wait_call {
  list_node under_way;                      // in its node's calls
  struct wait_call *next_in_bucket;         // hash chain by `request`
  wait_node *node;                          // the calling worker's instance; NULL: not in the graph
  const void *request;                      // NULL: not with the server
  const struct TRITONBACKEND_Model *target; // NULL: unknown
  wait_node *at;                            // the instance that received it; NULL: none, or unknown
  uint64_t at_execution;                    // the execution there
  wait_kind kind;
  uint64_t execution; // the execution that waits
  bool is_shared;     // other threads may answer that execution's requests meanwhile
  uint64_t replies;   // received so far
  bool is_refused;
  bool is_stuck; // this and the rest: scratch values of the search for circles
  struct wait_call *path;
  unsigned distance; // from the wait that closes the circle, + 1; 0: unknown
} wait_call;

// The caller sets the first three members of `self`.
void wait_graph_join(wait_node *self);
void wait_graph_leave(wait_node *self);

// The worker has gone, with all its open calls. `self` may be outside the graph, as for the
// functions below.
void wait_graph_forget(wait_node *self);

// Call it before a call is submitted as `request` to an instance of `target`. Requests are the same
// objects for the server and the backend. A call of a `node` that has not joined stays outside the
// graph, because no request waits for it.
void wait_graph_open(wait_call *self, wait_node *node, const void *request,
                     const struct TRITONBACKEND_Model *target);

// `execution` of the call's worker waits for the next reply, after `seen` replies. Returns NULL, or
// a text for free() that describes the circle: the call is then refused, and its replies must not
// be sent any more.
char *wait_graph_wait(wait_call *self, wait_kind kind, uint64_t execution, bool is_shared,
                      uint64_t seen);

// Call it before a reply is sent; the `final` reply takes the call out of the graph. False: the
// call was refused.
bool wait_graph_reply(wait_call *self, bool final);

// Call it when the server has given the request back.
void wait_graph_released(wait_call *self);

// Gives `request` to `node`, in its `execution`. Returns NULL, or a text for free(): the request is
// a call that would wait for itself there, and must be answered with that text.
char *wait_graph_give(wait_node *node, uint64_t execution, const void *request);

// Whether execute's thread waits for a reply.
bool wait_graph_is_waiting(const wait_node *self);

#endif
