// SPDX-License-Identifier: Apache-2.0
// Names of versions and splits, resolved to models: docs/internals/routing.md. Any thread, but for
// what says otherwise.
#ifndef NEREID_CORE_ROUTING_H
#define NEREID_CORE_ROUTING_H

#include "base/buffer.h"
#include "base/error.h"
#include "core/model_table.h"
#include "core/server_state.h"
#include "request/request.h"

// The number below -1 by which functions that take a version know a label. Errors: NOT_FOUND when
// the model has no such label, naming those that it has; INVALID_ARG, in Triton's words for a
// version that is no number, when it has none at all. A model that is not loaded, or NULL, is no
// error yet.
error *routing_number_of_label(model_entry *entry, const char *label, int64_t *number);

// The version that a number means, -1 and those below: with the entry's lock held. Errors as
// server_find_model's.
error *routing_find(model_entry *entry, int64_t number, const version_slot **slot);

// The request is of a server where models have rules: does its model?
void routing_mark(request *r);

// Makes a request for `version`, as it was asked for, which `m` was found by.
static inline error *routing_new_request(model *m, int64_t version, request **r)
{
  RETURN_IF_ERROR(request_new(&m->target, r));
  (*r)->asked_version = version;
  if (atomic_load_explicit(&m->environment.server->has_rules, memory_order_acquire))
    routing_mark(*r);
  return NULL;
}

// Chooses the version of a request that is due to be given one.
void routing_choose(request *r);

// submit_request for a request whose model has rules.
error *routing_submit(request *r, trace *t_owned);

// Appends the model's rules as JSON, once `change` (JSON) is made; an empty one: nothing changes.
error *routing_change(server *s, model_entry *entry, slice change, buffer *out);

// The model is loaded, with what its configuration says, or unloaded. Holders of entry->lock.
void routing_loaded(server *s, model_entry *entry, version_routing **read_owned);
void routing_unloaded(model_entry *entry);

// Ends what is in flight of copies: of a model whose versions leave, or of all models. Not with
// entry->lock.
void routing_cancel_shadows(model_entry *entry);
void routing_cancel_all_shadows(server *s);

#endif
