// SPDX-License-Identifier: Apache-2.0
// The implicit state of a model's sequences: read once at load from its configuration, with the
// files of first states, and only read afterwards. Load threads.
#ifndef NEREID_CORE_STATE_RULES_H
#define NEREID_CORE_STATE_RULES_H

#include "core/model.h"
#include "request/sequence_state.h"

// *rules is NULL for a model without states. It borrows from the configuration. INVALID_ARG in
// Triton's words.
error *state_rules_make(const model *m, state_rules **rules);
void state_rules_free(state_rules *rules); // NULL is allowed

#endif
