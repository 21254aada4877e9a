// SPDX-License-Identifier: Apache-2.0
// Names of versions and splits, resolved to models (docs/internals/routing.md). Any thread unless
// it says otherwise.
#ifndef NEREID_CORE_ROUTING_H
#define NEREID_CORE_ROUTING_H

#include "base/buffer.h"
#include "base/error.h"
#include "core/model_table.h"
#include "core/server_state.h"
#include "request/request.h"

// *number: a number below -1 that stands for the label where functions take a version. Errors:
// NOT_FOUND when the model does not have the label, naming those that it has; INVALID_ARG, in
// Triton's words for an invalid version, when it has none at all. A model that is not loaded, or
// NULL, is no error yet.
error *routing_number_of_label(model_entry *entry, const char *label, int64_t *number);

// The version that a number from -1 down stands for. The entry's lock is held. Errors as
// server_find_model's.
error *routing_find(model_entry *entry, int64_t number, const version_slot **slot);

// On a server where models have rules: marks the request if its model has some.
void routing_mark(request *r);

// Makes a request for the model `m`, which was found by `version` as the client gave it.
static inline error *routing_new_request(model *m, int64_t version, request **r)
{
  RETURN_IF_ERROR(request_new(&m->target, r));
  (*r)->asked_version = version;
  if (atomic_load_explicit(&m->environment.server->has_rules, memory_order_acquire))
    routing_mark(*r);
  return NULL;
}

// Chooses the version of a request whose route is due.
void routing_choose(request *r);

// submit_request for a request whose model has rules.
error *routing_submit(request *r, trace *t_owned);

// Makes the change (JSON; empty: none), then appends the model's rules as JSON.
error *routing_change(server *s, model_entry *entry, slice change, buffer *out);

// The model was loaded with the rules of its configuration, or unloaded. entry->lock is held.
void routing_loaded(server *s, model_entry *entry, version_routing **read_owned);
void routing_unloaded(model_entry *entry);

// Cancels copies in flight: of a model whose versions leave, or of all models. entry->lock is not
// held.
void routing_cancel_shadows(model_entry *entry);
void routing_cancel_all_shadows(server *s);

#endif
