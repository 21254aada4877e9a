// SPDX-License-Identifier: Apache-2.0
// Loads of models together with the ensembles made of them. An ensemble is loaded after its steps'
// models, and is checked and loaded again when one of them comes, changes or goes. On threads that
// may wait for loads, never on the load pool's, which do the loading.
#ifndef NEREID_CORE_DEPENDENTS_H
#define NEREID_CORE_DEPENDENTS_H

#include "base/string_list.h"
#include "core/lifecycle.h"

// A model that is to be loaded, or loaded again if it has changed.
typedef struct model_wish {
  const repository_model *found;
  const char *config_json; // as in load_wish
  upload *files;
  error *failure; // set by dependents_load; the caller's
} model_wish;

// Loads the wishes, and before an ensemble the models of its steps: under explicit control and on
// demand these are looked for in the repositories. Then brings the ensembles of all that has
// changed up to date. `changed`: models (clients' names) that have changed before; or NULL.
void dependents_load(server *s, model_wish *wishes, size_t count, const string_list *changed);

// Unloads all models that clients call `name`, and with `cascade` the models of their steps that
// nobody asked for by name and no other ensemble has; then brings ensembles up to date.
error *dependents_unload(server *s, const char *name, bool cascade);

// Unloads the model if it is idle, after the ensembles made of it. False: the model stays, as it or
// an ensemble made of it is in use.
bool dependents_unload_idle(server *s, model_entry *entry);

#endif
