// SPDX-License-Identifier: Apache-2.0
// The routing of one model: the rules of its configuration, those set by requests, those in force,
// and their counts. Part of a model's entry (model_table.h), whose lock guards it and which it
// lives as long as.
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
  shadow_counts *counts; // one for each version that ever had a shadow rule
} version_routing;

version_routing *version_routing_new(void);          // NULL when memory is short
void version_routing_free(version_routing *routing); // NULL is allowed; no shadow is in flight

// *routing: the rules of a configuration's parameters; NULL: none. INVALID_ARG.
error *version_routing_read(const Inference__ModelConfig *config, version_routing **routing);

// The model was loaded with the rules `read` (NULL: none). Rules set by requests stay. `read` may
// be `routing` itself; else counts may move out of it.
void version_routing_configure(version_routing *routing, version_routing *read);

// *result: the section after a change. Changes nothing yet.
error *version_routing_plan(const version_routing *routing, const rules_change *change,
                            rule_section section, version_rules *result);

// Puts planned rules in force. False: memory is short, and nothing has changed.
bool version_routing_set(version_routing *routing, const rules_change *change,
                         const version_rules planned[RULE_SECTIONS]);

// The counts of a version with a shadow rule.
shadow_counts *version_routing_counts(const version_routing *routing, int64_t version);

// Appends the JSON object of docs/versions.md; NULL: there are no rules.
void version_routing_print(const version_routing *routing, buffer *out);

#endif
