// SPDX-License-Identifier: Apache-2.0
// Waking a thread that waits in poll or epoll: an eventfd that counts how often it was asked.
#ifndef NEREID_BASE_WAKEUP_H
#define NEREID_BASE_WAKEUP_H

#include <stdint.h>

// A descriptor that never blocks, closed with close; -1 and errno when there is none.
int wakeup_new(void);

// Any thread. Is not lost, whatever interrupts it.
void wakeup_signal(int descriptor);

// How often it was signalled since the last time; 0 when it was not.
uint64_t wakeup_take(int descriptor);

#endif
