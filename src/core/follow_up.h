// SPDX-License-Identifier: Apache-2.0
// Work that becomes due when a request ends. If the request ends while its backend's `execute` is
// still running, the work waits until that returns, so that it does not hold the instance. For the
// steps of ensembles; on the thread that the request ends on.
#ifndef NEREID_CORE_FOLLOW_UP_H
#define NEREID_CORE_FOLLOW_UP_H

#include "request/request.h"

#include <stdbool.h>

// Embedded in what it continues. `has_time`: the thread may be kept for a moment.
typedef struct follow_up {
  void (*run)(struct follow_up *f, bool has_time);
} follow_up;

// The execution of one request alone, on this thread.
typedef struct follow_up_scope {
  const request *request;
  follow_up *due; // NULL: nothing
  struct follow_up_scope *outer;
} follow_up_scope;

void follow_up_open(follow_up_scope *scope, const request *r);
// Returns what is due, which the caller runs now that the execution is over; or NULL.
follow_up *follow_up_close(follow_up_scope *scope);

// `r` is over. If the innermost execution on this thread is r's, `f` runs after it, else at once.
void follow_up_add(const request *r, follow_up *f);

#endif
