// SPDX-License-Identifier: Apache-2.0
// Wakes a thread that waits in poll or epoll, by an eventfd that counts the signals.
#ifndef NEREID_BASE_WAKEUP_H
#define NEREID_BASE_WAKEUP_H

#include <stdint.h>

// A non-blocking descriptor, to be closed with close; -1 with errno on failure.
int wakeup_new(void);

// Any thread. Repeats the write if a signal interrupts it.
void wakeup_signal(int descriptor);

// The number of signals since the last call; 0: none.
uint64_t wakeup_take(int descriptor);

#endif
