// Who still needs a request of the core: the core itself, those who cancel it, and while a
// decoupled model may answer, its responses. The last one deletes the request; nobody joins after
// that. Shared by all front ends. Any thread.
#ifndef NEREID_FRONTEND_PROTOCOL_REQUEST_USERS_H
#define NEREID_FRONTEND_PROTOCOL_REQUEST_USERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct request_users {
  _Atomic uint32_t count;
  _Atomic bool submitted;     // the core has it: it can be cancelled
  _Atomic bool cancel_wanted; // nobody waits any more; whoever sees both flags cancels
} request_users;

// For whoever made the request.
static inline void request_users_init(request_users *u)
{
  atomic_store_explicit(&u->count, 1, memory_order_relaxed);
}

// False when the request is deleted or about to be.
static inline bool request_users_join(request_users *u)
{
  uint32_t count = atomic_load_explicit(&u->count, memory_order_relaxed);
  while (count > 0)
    if (atomic_compare_exchange_weak_explicit(&u->count, &count, count + 1, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

// True for the last one, who deletes the request.
static inline bool request_users_leave(request_users *u)
{
  return atomic_fetch_sub_explicit(&u->count, 1, memory_order_acq_rel) == 1;
}

// The core has taken the request. Whether somebody wanted it cancelled before.
static inline bool request_users_submitted(request_users *u)
{
  atomic_store(&u->submitted, true);
  return atomic_load(&u->cancel_wanted);
}

// Nobody waits for the answer any more. True: the caller has joined, and cancels the request.
static inline bool request_users_cancel(request_users *u)
{
  atomic_store(&u->cancel_wanted, true);
  return atomic_load(&u->submitted) && request_users_join(u);
}

#endif
