// SPDX-License-Identifier: Apache-2.0
// Models and the ensembles that are made of them: an ensemble is loaded after the models of its
// steps, and is checked and loaded again when one of them has come, changed or gone. On threads
// that may wait for loads; never on the load pool's, which does them.
#ifndef NEREID_CORE_DEPENDENTS_H
#define NEREID_CORE_DEPENDENTS_H

#include "base/string_list.h"
#include "core/lifecycle.h"

// A model that is to be loaded, or loaded again if it has changed.
typedef struct model_wish {
  const repository_model *found;
  const char *config_json; // as in load_wish
  upload *files;
  error *failure; // what dependents_load has to say: the caller's
} model_wish;

// Loads them, and the models of ensembles' steps before those: under explicit control and on demand
// what is not wished for is looked for in the repositories. Then sees to the ensembles of whatever
// has changed. `changed`: names of models (as clients call them) that have changed before; or NULL.
void dependents_load(server *s, model_wish *wishes, size_t count, const string_list *changed);

// Sees to the ensembles of models that have changed.
void dependents_changed(server *s, const string_list *names);

// Unloads all models that clients call `name`, and with `cascade` the models of their steps that
// nobody asked for by name and no other ensemble has; then sees to ensembles.
error *dependents_unload(server *s, const char *name, bool cascade);

// Unloads the model if nobody uses it nor an ensemble that is made of it, which goes with it.
// False: the model stays.
bool dependents_unload_idle(server *s, model_entry *entry);

#endif
