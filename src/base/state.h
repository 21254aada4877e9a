// SPDX-License-Identifier: Apache-2.0
// What a setter of a state asserts: that the new one may follow the one before. Any thread.
#ifndef NEREID_BASE_STATE_H
#define NEREID_BASE_STATE_H

#include <assert.h>

#define STATE_BIT(state) (1u << (state))

// `allowed` is an array: for each state, the bits of those that may follow it. A macro, so that
// what fails names the setter.
#define state_assert(allowed, from, to)                                                            \
  do {                                                                                             \
    assert((unsigned)(from) < sizeof(allowed) / sizeof(*(allowed)));                               \
    assert(((allowed)[from] & STATE_BIT(to)) != 0);                                                \
    (void)(allowed), (void)sizeof(from), (void)sizeof(to); /* where nothing is asserted */         \
  } while (0)

#endif
