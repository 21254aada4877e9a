// SPDX-License-Identifier: Apache-2.0
// A state's setter asserts with this that the new state may follow the old one. Any thread.
#ifndef NEREID_BASE_STATE_H
#define NEREID_BASE_STATE_H

#include <assert.h>

#define STATE_BIT(state) (1u << (state))

// `allowed` is an array: for each state, the bits of the states that may follow it. A macro, so
// that a failed assert names the setter.
#define state_assert(allowed, from, to)                                                            \
  do {                                                                                             \
    assert((unsigned)(from) < sizeof(allowed) / sizeof(*(allowed)));                               \
    assert(((allowed)[from] & STATE_BIT(to)) != 0);                                                \
    (void)(allowed), (void)sizeof(from), (void)sizeof(to); /* for builds without asserts */        \
  } while (0)

#endif
