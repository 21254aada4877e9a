// SPDX-License-Identifier: Apache-2.0
// What the end of a request makes due when that comes while its backend's `execute` is still
// running: it waits for the return, so that no instance is held by what follows. For the steps of
// ensembles; whatever thread a request ends on.
#ifndef NEREID_CORE_FOLLOW_UP_H
#define NEREID_CORE_FOLLOW_UP_H

#include "request/request.h"

#include <stdbool.h>

// Part of whatever it is for. `has_time`: the thread may be kept for a moment.
typedef struct follow_up {
  void (*run)(struct follow_up *f, bool has_time);
} follow_up;

// An execution of one request alone, on this thread.
typedef struct follow_up_scope {
  const request *request;
  follow_up *due; // NULL: nothing
  struct follow_up_scope *outer;
} follow_up_scope;

void follow_up_open(follow_up_scope *scope, const request *r);
// Gives what is due: the caller's to run, now that the execution is over; or NULL.
follow_up *follow_up_close(follow_up_scope *scope);

// `r` is over. Runs `f` when the innermost execution on this thread is over, if that is r's, and
// else at once.
void follow_up_add(const request *r, follow_up *f);

#endif
