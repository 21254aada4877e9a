// SPDX-License-Identifier: Apache-2.0
// The requests of one model that were cancelled while queued. The timekeeper's thread answers them,
// so that no callback runs inside the call that cancels.
#ifndef NEREID_CORE_CANCELLED_H
#define NEREID_CORE_CANCELLED_H

#include "base/list.h"
#include "schedule/queue.h"
#include "schedule/timekeeper.h"

#include <pthread.h>

typedef struct cancelled_requests {
  pthread_mutex_t lock;
  list items; // taken out of the queue, not yet answered; guarded by lock
  timekeeper *timekeeper;
  timer timer;
} cancelled_requests;

void cancelled_requests_init(cancelled_requests *c, timekeeper *keeper);
void cancelled_requests_fini(cancelled_requests *c); // waits for answers that are under way

// Takes over an item that scheduler_cancel has removed. Any thread.
void cancelled_requests_add(cancelled_requests *c, queue_item *item_owned);

#endif
