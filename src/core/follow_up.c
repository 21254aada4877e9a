// SPDX-License-Identifier: Apache-2.0
// One pointer for each thread: its innermost scope, on that thread's stack.
#include "core/follow_up.h"

#include <assert.h>

static _Thread_local follow_up_scope *innermost;

void follow_up_open(follow_up_scope *scope, const request *r)
{
  *scope = (follow_up_scope){.request = r, .outer = innermost};
  innermost = scope;
}

follow_up *follow_up_close(follow_up_scope *scope)
{
  assert(innermost == scope);
  innermost = scope->outer;
  return scope->due;
}

void follow_up_add(const request *r, follow_up *f)
{
  if (innermost == NULL || innermost->request != r) {
    f->run(f, false);
    return;
  }
  assert(innermost->due == NULL);
  innermost->due = f;
}
