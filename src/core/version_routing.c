// SPDX-License-Identifier: Apache-2.0
// The three sections are alike; a section set by a request has precedence over the configuration's.
#include "core/version_routing.h"

#include <stdlib.h>

version_routing *version_routing_new(void)
{
  version_routing *routing = calloc(1, sizeof(*routing));
  if (routing != NULL)
    shadows_init(&routing->shadows);
  return routing;
}

void version_routing_free(version_routing *routing)
{
  if (routing == NULL)
    return;
  while (routing->counts != NULL) {
    shadow_counts *next = routing->counts->next;
    free(routing->counts);
    routing->counts = next;
  }
  shadows_fini(&routing->shadows);
  free(routing);
}

shadow_counts *version_routing_counts(const version_routing *routing, int64_t version)
{
  shadow_counts *counts = routing->counts;
  while (counts != NULL && counts->version != version)
    counts = counts->next;
  return counts;
}

static bool add_counts(version_routing *routing, const version_rules *shadow)
{
  for (size_t i = 0; i < shadow->count; i++) {
    if (version_routing_counts(routing, shadow->items[i].version) != NULL)
      continue;
    shadow_counts *counts = calloc(1, sizeof(*counts));
    if (counts == NULL)
      return false;
    counts->version = shadow->items[i].version;
    counts->next = routing->counts;
    routing->counts = counts;
  }
  return true;
}

error *version_routing_read(const Inference__ModelConfig *config, version_routing **result)
{
  *result = NULL;
  if (!version_rules_are_given(config))
    return NULL;
  version_routing *routing = version_routing_new();
  if (routing == NULL)
    return error_no_memory();
  error *e = version_rules_read_config(config, routing->configured);
  if (e == NULL && !add_counts(routing, &routing->configured[RULES_SHADOW]))
    e = error_no_memory();
  if (e == NULL)
    *result = routing;
  else
    version_routing_free(routing);
  return e;
}

// Rules that stay keep their counts; credits start again.
static void put_in_force(version_rules *now, const version_rules *wanted, rule_section section)
{
  version_rules before = *now;
  *now = *wanted;
  for (size_t i = 0; i < now->count; i++) {
    version_rule *rule = &now->items[i];
    const version_rule *old = section == RULES_LABELS
                                  ? version_rules_find_label(&before, slice_of(rule->label))
                                  : version_rules_find_version(&before, rule->version);
    rule->requests = old == NULL ? 0 : old->requests;
    rule->credit = 0;
  }
}

static void refresh(version_routing *routing)
{
  for (size_t s = 0; s < RULE_SECTIONS; s++)
    put_in_force(&routing->now[s],
                 routing->is_requested[s] ? &routing->requested[s] : &routing->configured[s],
                 (rule_section)s);
}

// Moves the counts of `read` for new versions to `routing`.
static void take_counts(version_routing *routing, version_routing *read)
{
  shadow_counts **at = &read->counts;
  while (*at != NULL) {
    shadow_counts *counts = *at;
    if (version_routing_counts(routing, counts->version) != NULL) {
      at = &counts->next;
      continue;
    }
    *at = counts->next;
    counts->next = routing->counts;
    routing->counts = counts;
  }
}

void version_routing_configure(version_routing *routing, version_routing *read)
{
  for (size_t s = 0; s < RULE_SECTIONS; s++) {
    if (read != NULL)
      routing->configured[s] = read->configured[s];
    else
      routing->configured[s].count = 0;
  }
  if (read != NULL && read != routing)
    take_counts(routing, read);
  refresh(routing);
}

error *version_routing_plan(const version_routing *routing, const rules_change *change,
                            rule_section section, version_rules *result)
{
  if (!change->given[section])
    *result =
        routing->is_requested[section] ? routing->requested[section] : routing->configured[section];
  else if (change->resets[section])
    *result = routing->configured[section];
  else if (section == RULES_LABELS)
    return rules_change_labels(change, &routing->now[section], result);
  else
    *result = change->rules[section];
  return NULL;
}

bool version_routing_set(version_routing *routing, const rules_change *change,
                         const version_rules planned[RULE_SECTIONS])
{
  if (!add_counts(routing, &planned[RULES_SHADOW]))
    return false;
  for (size_t s = 0; s < RULE_SECTIONS; s++) {
    if (!change->given[s])
      continue;
    routing->is_requested[s] = !change->resets[s];
    routing->requested[s] = planned[s];
  }
  refresh(routing);
  return true;
}

void version_routing_print(const version_routing *routing, buffer *out)
{
  const version_rules none = {.count = 0};
  buffer_append_char(out, '{');
  for (size_t s = 0; s < RULE_SECTIONS; s++) {
    buffer_append_format(out, "%s\"%s\":", s == 0 ? "" : ",", rule_section_name((rule_section)s));
    version_rules_print(routing == NULL ? &none : &routing->now[s], (rule_section)s, out);
  }
  buffer_append_text(out, ",\"set_by_request\":[");
  const char *before = "";
  for (size_t s = 0; routing != NULL && s < RULE_SECTIONS; s++)
    if (routing->is_requested[s]) {
      buffer_append_format(out, "%s\"%s\"", before, rule_section_name((rule_section)s));
      before = ",";
    }
  buffer_append_text(out, "]}");
}
