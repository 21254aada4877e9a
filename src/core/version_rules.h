// SPDX-License-Identifier: Apache-2.0
// The rules of a model about its versions: names (labels), the split of requests that name none,
// and copies (shadows). Values: read from a configuration's parameters or from JSON, checked as a
// whole, printed. Pure, any thread.
#ifndef NEREID_CORE_VERSION_RULES_H
#define NEREID_CORE_VERSION_RULES_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERSION_LABEL_BYTES 64 // with the NUL
#define VERSION_RULES_MAX   32 // of a section
#define VERSION_WEIGHT_MAX  1000000
#define VERSION_SHARE_ALL   1000000 // a shadow's share is in millionths

typedef enum rule_section {
  RULES_LABELS,
  RULES_SPLIT,
  RULES_SHADOW,
  RULE_SECTIONS,
} rule_section;

typedef struct version_rule {
  char label[VERSION_LABEL_BYTES]; // of RULES_LABELS, else ""
  int64_t version;
  uint32_t share;    // RULES_SPLIT: the weight; RULES_SHADOW: millionths of the requests
  int64_t credit;    // version_policy.c's
  uint64_t requests; // that the rule applied to
} version_rule;

typedef struct version_rules {
  version_rule items[VERSION_RULES_MAX];
  size_t count;
} version_rules;

// The section's name in JSON: "labels", "split", "shadow".
const char *rule_section_name(rule_section section);
// The section's parameter in a configuration: "version_labels", and so on.
const char *rule_section_parameter(rule_section section);

version_rule *version_rules_find_label(version_rules *rules, slice label);       // NULL when absent
version_rule *version_rules_find_version(version_rules *rules, int64_t version); // the same

// Reads the section's parameter; *given: it is there, maybe empty. INVALID_ARG names the parameter,
// its value, and what was expected.
error *version_rules_read_parameter(const Inference__ModelConfig *config, rule_section section,
                                    version_rules *rules, bool *given);

// Whether the configuration has one of the parameters.
bool version_rules_are_given(const Inference__ModelConfig *config);
// Reads all sections.
error *version_rules_read_config(const Inference__ModelConfig *config,
                                 version_rules rules[RULE_SECTIONS]);

// A change that a request asks for, read from {"labels": …, "split": …, "shadow": …}.
typedef struct rules_change {
  bool given[RULE_SECTIONS];
  bool resets[RULE_SECTIONS]; // null: back to the configuration's rules
  version_rules rules[RULE_SECTIONS];
  bool removed[VERSION_RULES_MAX]; // labels to remove
} rules_change;

error *rules_change_read(slice json, rules_change *change);

// *result: the labels `now` after the change. INVALID_ARG when there are too many.
error *rules_change_labels(const rules_change *change, const version_rules *now,
                           version_rules *result);

// Appends {"stable":3,…}, as rules_change_read reads it.
void version_rules_print(const version_rules *rules, rule_section section, buffer *out);

#endif
