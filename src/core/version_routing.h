// SPDX-License-Identifier: Apache-2.0
// The routing of one model: what its configuration says, what requests have set since, what is in
// force of both, and what has come of it. It belongs to a model's entry (model_table.h), whose lock
// guards it, and lives as long.
#ifndef NEREID_CORE_VERSION_ROUTING_H
#define NEREID_CORE_VERSION_ROUTING_H

#include "core/shadow.h"
#include "core/version_rules.h"

typedef struct version_routing {
  version_rules configured[RULE_SECTIONS];
  version_rules requested[RULE_SECTIONS]; // where is_requested
  bool is_requested[RULE_SECTIONS];
  version_rules now[RULE_SECTIONS]; // in force, with their counts
  shadows shadows;
  shadow_counts *counts; // one for each version that ever was to get copies
} version_routing;

version_routing *version_routing_new(void);          // NULL when memory is short
void version_routing_free(version_routing *routing); // NULL is allowed; no shadow is in flight

// What the parameters of a configuration say; NULL: nothing. INVALID_ARG.
error *version_routing_read(const Inference__ModelConfig *config, version_routing **routing);

// The model is loaded with what `read` says, or NULL: nothing. What requests have set stays. `read`
// may be `routing` itself; else counts may move out of it.
void version_routing_configure(version_routing *routing, version_routing *read);

// What a change makes of a section. Nothing is changed yet.
error *version_routing_plan(const version_routing *routing, const rules_change *change,
                            rule_section section, version_rules *result);

// Puts what was planned in force. False, and nothing changes, when memory is short.
bool version_routing_set(version_routing *routing, const rules_change *change,
                         const version_rules planned[RULE_SECTIONS]);

// The counts of a version that gets copies.
shadow_counts *version_routing_counts(const version_routing *routing, int64_t version);

// Appends the JSON object of docs/versions.md; NULL: there are no rules.
void version_routing_print(const version_routing *routing, buffer *out);

#endif
