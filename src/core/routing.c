// SPDX-License-Identifier: Apache-2.0
// The entry's lock guards the rules; copies are made without it.
#include "core/routing.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/server_state.h"
#include "core/submit.h"
#include "core/version_policy.h"
#include "core/version_routing.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const version_rules no_rules = {.count = 0};

static version_rules *rules_of(const model_entry *entry, rule_section section)
{
  return entry->routing != NULL ? &entry->routing->now[section] : (version_rules *)&no_rules;
}

static const version_slot *ready_version(model_entry *entry, int64_t version)
{
  const version_slot *slot = model_entry_version(entry, version);
  return slot != NULL && slot->state == VERSION_READY ? slot : NULL;
}

static void note_ready(model_entry *entry, const version_rules *rules,
                       bool ready[VERSION_RULES_MAX])
{
  for (size_t i = 0; i < rules->count; i++)
    ready[i] = ready_version(entry, rules->items[i].version) != NULL;
}

// ---- from a number to a version ----

// As in Triton, a model that never had a version (its configuration is wrong, say) is unknown.
static error *none_available(const model_entry *entry)
{
  return model_unknown(ERROR_NOT_FOUND,
                       entry->version_count > 0 ? "'%s' has no available versions"
                                                : "'%s' is not found",
                       entry->name);
}

static error *find_latest(model_entry *entry, const version_slot **slot)
{
  *slot = model_entry_latest(entry);
  return *slot != NULL ? NULL : none_available(entry);
}

// The version for questions that name none and are not split.
static error *find_main(model_entry *entry, const version_slot **slot)
{
  bool ready[VERSION_RULES_MAX];
  const version_rules *split = rules_of(entry, RULES_SPLIT);
  note_ready(entry, split, ready);
  const version_rule *rule = version_policy_main(split, ready);
  if (rule == NULL)
    return find_latest(entry, slot);
  *slot = ready_version(entry, rule->version);
  return NULL;
}

static version_rule *find_label_rule(const model_entry *entry, int64_t number)
{
  version_rules *labels = rules_of(entry, RULES_LABELS);
  for (size_t i = 0; i < labels->count; i++)
    if (version_number_of_label(slice_of(labels->items[i].label)) == number)
      return &labels->items[i];
  return NULL;
}

static void append_labels(buffer *out, const version_rules *labels)
{
  for (size_t i = 0; i < labels->count; i++)
    buffer_append_format(out, "%s, ", labels->items[i].label);
  buffer_append_text(out, "latest");
}

static error *find_labelled(model_entry *entry, int64_t number, const version_slot **slot)
{
  const version_rule *rule = find_label_rule(entry, number);
  if (rule == NULL) { // removed since the label was read, or the model was not loaded then
    AUTO_BUFFER buffer known = BUFFER_EMPTY;
    append_labels(&known, rules_of(entry, RULES_LABELS));
    return error_new(ERROR_NOT_FOUND,
                     "Request for unknown model: '%s' has no version label of that name, expected "
                     "one of: %.*s",
                     entry->name, (int)known.size, known.data);
  }
  *slot = model_entry_version(entry, rule->version);
  if (*slot == NULL)
    return error_new(ERROR_UNAVAILABLE,
                     "Request for unknown model: '%s' version %" PRId64
                     " (label '%s') is not found",
                     entry->name, rule->version, rule->label);
  if ((*slot)->state != VERSION_READY)
    return error_new(ERROR_UNAVAILABLE,
                     "Request for unknown model: '%s' version %" PRId64
                     " (label '%s') is not at ready state",
                     entry->name, rule->version, rule->label);
  return NULL;
}

error *routing_find(model_entry *entry, int64_t number, const version_slot **slot)
{
  assert(lock_is_held(&entry->lock) && number < 0);
  if (number == VERSION_LATEST || (number == -1 && entry->routing == NULL))
    return find_latest(entry, slot);
  if (version_number_is_label(number))
    return find_labelled(entry, number, slot);
  int64_t chosen = version_chosen(number);
  *slot = chosen > 0 ? ready_version(entry, chosen) : NULL;
  return *slot != NULL ? NULL : find_main(entry, slot);
}

error *routing_number_of_label(model_entry *entry, const char *label, int64_t *number)
{
  slice text = slice_of(label);
  *number = slice_equal(text, SLICE("latest")) ? VERSION_LATEST : version_number_of_label(text);
  if (entry == NULL || *number == VERSION_LATEST)
    return NULL;
  LOCK_SCOPE(&entry->lock);
  version_rules *labels = rules_of(entry, RULES_LABELS);
  if (entry->config == NULL || version_rules_find_label(labels, text) != NULL)
    return NULL;
  if (labels->count == 0)
    return error_new(ERROR_INVALID_ARG,
                     "failed to get model version from specified version string '%.100s' "
                     "(details: stol), version should be an integral value > 0",
                     label);
  AUTO_BUFFER buffer known = BUFFER_EMPTY;
  append_labels(&known, labels);
  return error_new(ERROR_NOT_FOUND,
                   "Request for unknown model: '%s' has no version label '%.100s', expected one "
                   "of: %.*s",
                   entry->bare, label, (int)known.size, known.data);
}

// ---- a request ----

static model_entry *entry_of(const request *r)
{
  model *m = model_of_target(r->target);
  model_entry *entry = model_table_find(&m->environment.server->models, m->id);
  assert(entry != NULL); // a name that was put in stays
  return entry;
}

// Requests with the same key stay together: those of a sequence.
static slice key_of(const request *r)
{
  if (r->correlation_text != NULL)
    return slice_of(r->correlation_text);
  return (slice){(const char *)&r->correlation_id, r->correlation_id != 0 ? sizeof(uint64_t) : 0};
}

void routing_mark(request *r)
{
  model_entry *entry = entry_of(r);
  LOCK_SCOPE(&entry->lock);
  if (entry->routing != NULL)
    r->route = r->asked_version == -1 ? REQUEST_ROUTE_DUE : REQUEST_ROUTE_NAMED;
}

void routing_choose(request *r)
{
  assert(r->route == REQUEST_ROUTE_DUE);
  model_entry *entry = entry_of(r);
  request_target *before = r->target;
  bool ready[VERSION_RULES_MAX];
  const version_slot *slot = NULL;
  pthread_mutex_lock(&entry->lock);
  version_rules *split = rules_of(entry, RULES_SPLIT);
  note_ready(entry, split, ready);
  const version_rule *rule = version_policy_split(split, ready, key_of(r));
  if (rule != NULL)
    slot = ready_version(entry, rule->version);
  else // the version that the request was made for may have left, or become ready late
    slot = model_entry_latest(entry);
  if (slot != NULL)
    r->target = request_target_ref(&slot->ready->target);
  pthread_mutex_unlock(&entry->lock);
  if (slot != NULL)
    request_target_unref(before);
  r->route = REQUEST_ROUTE_CHOSEN;
}

// The copies of a request.
typedef struct copies {
  model *to[VERSION_RULES_MAX]; // referenced
  shadow_counts *counts[VERSION_RULES_MAX];
  shadow *made[VERSION_RULES_MAX];
  size_t count;
} copies;

// The request is about to be submitted: counts it for its rules, and finds the versions for copies.
static void note_request(model_entry *entry, const request *r, copies *c)
{
  LOCK_SCOPE(&entry->lock);
  version_rule *rule =
      version_number_is_label(r->asked_version) ? find_label_rule(entry, r->asked_version) : NULL;
  if (r->route == REQUEST_ROUTE_CHOSEN)
    rule = version_rules_find_version(rules_of(entry, RULES_SPLIT), r->target->version);
  if (rule != NULL)
    rule->requests++;
  version_rules *shadow = rules_of(entry, RULES_SHADOW);
  for (size_t i = 0; i < shadow->count; i++) {
    version_rule *copied = &shadow->items[i];
    if (!version_policy_shadows(copied, r->target->version, key_of(r)))
      continue;
    shadow_counts *counts = version_routing_counts(entry->routing, copied->version);
    const version_slot *slot = ready_version(entry, copied->version);
    copied->requests++;
    if (slot == NULL) {
      shadow_count(counts, SHADOW_NOT_READY);
      continue;
    }
    c->counts[c->count] = counts;
    c->to[c->count++] = model_ref(slot->ready);
  }
}

error *routing_submit(request *r, trace *t)
{
  copies c;
  c.count = 0;
  if (r->route == REQUEST_ROUTE_DUE)
    routing_choose(r);
  model_entry *entry = entry_of(r);
  note_request(entry, r, &c);
  for (size_t i = 0; i < c.count; i++)
    c.made[i] = shadow_new(&entry->routing->shadows, c.counts[i], r, c.to[i]);
  if (r->route == REQUEST_ROUTE_CHOSEN)
    r->route = REQUEST_ROUTE_DUE; // for the next submission
  error *e = submit_request(r, t);
  for (size_t i = 0; i < c.count; i++) {
    if (c.made[i] == NULL)
      continue;
    if (e == NULL)
      shadow_send(c.made[i]);
    else
      shadow_drop(c.made[i]);
  }
  return e;
}

// ---- changes ----

static bool has_ready(model_entry *entry)
{
  return model_entry_latest(entry) != NULL;
}

static error *not_ready(model_entry *entry, rule_section section, int64_t version)
{
  AUTO_BUFFER buffer ready = BUFFER_EMPTY;
  for (size_t i = 0; i < entry->version_count; i++)
    if (entry->versions[i].state == VERSION_READY)
      buffer_append_format(&ready, "%s%" PRId64, ready.size > 0 ? ", " : "",
                           entry->versions[i].version);
  return error_new(ERROR_INVALID_ARG,
                   "%s: version %" PRId64 " of model '%s' is not ready, expected one of: %.*s",
                   rule_section_name(section), version, entry->name, (int)ready.size, ready.data);
}

// A typing error in a request would turn clients away. Rules for future versions belong in the
// configuration.
static error *check_ready(model_entry *entry, const rules_change *change)
{
  for (size_t s = 0; s < RULE_SECTIONS; s++)
    for (size_t i = 0; i < change->rules[s].count; i++) {
      const version_rule *rule = &change->rules[s].items[i];
      bool matters = s == RULES_LABELS ? !change->removed[i] : rule->share > 0;
      if (matters && ready_version(entry, rule->version) == NULL)
        return not_ready(entry, (rule_section)s, rule->version);
    }
  return NULL;
}

// `fresh` becomes the entry's routing if it has none.
static error *change_entry(model_entry *entry, const rules_change *change, version_routing **fresh,
                           version_rules planned[RULE_SECTIONS])
{
  assert(lock_is_held(&entry->lock));
  version_routing *routing = entry->routing != NULL ? entry->routing : *fresh;
  RETURN_IF_ERROR(check_ready(entry, change));
  for (size_t s = 0; s < RULE_SECTIONS; s++)
    RETURN_IF_ERROR(version_routing_plan(routing, change, (rule_section)s, &planned[s]));
  if (!version_routing_set(routing, change, planned))
    return error_no_memory();
  entry->routing = routing;
  if (routing == *fresh)
    *fresh = NULL;
  return NULL;
}

static error *read_and_change(model_entry *entry, slice json)
{
  rules_change *change AUTO_FREE = malloc(sizeof(*change));
  version_rules *planned AUTO_FREE = calloc(RULE_SECTIONS, sizeof(*planned));
  version_routing *fresh = version_routing_new();
  error *e = change == NULL || planned == NULL || fresh == NULL ? error_no_memory()
                                                                : rules_change_read(json, change);
  if (e == NULL) {
    LOCK_SCOPE(&entry->lock);
    e = change_entry(entry, change, &fresh, planned);
  }
  version_routing_free(fresh);
  return e;
}

static error *check_loaded(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  return has_ready(entry) ? NULL : none_available(entry);
}

error *routing_change(server *s, model_entry *entry, slice change, buffer *out)
{
  RETURN_IF_ERROR(check_loaded(entry));
  if (change.size > 0) {
    RETURN_IF_ERROR(read_and_change(entry, change));
    atomic_store_explicit(&s->has_rules, true, memory_order_release);
  }
  size_t before = out->size;
  LOCK_SCOPE(&entry->lock);
  version_routing_print(entry->routing, out);
  if (change.size > 0)
    log_info("model '%s': routing is now %.*s", entry->name, (int)(out->size - before),
             out->data + before);
  return NULL;
}

// ---- loads ----

static void warn_of_absent(model_entry *entry)
{
  for (size_t s = 0; s < RULE_SECTIONS; s++) {
    const version_rules *rules = rules_of(entry, (rule_section)s);
    for (size_t i = 0; i < rules->count; i++)
      if (ready_version(entry, rules->items[i].version) == NULL)
        log_warning("model '%s': %s: version %" PRId64 " is not loaded", entry->name,
                    rule_section_name((rule_section)s), rules->items[i].version);
  }
}

void routing_loaded(server *s, model_entry *entry, version_routing **read)
{
  assert(lock_is_held(&entry->lock));
  if (entry->routing == NULL && *read == NULL)
    return;
  if (entry->routing == NULL) {
    entry->routing = *read;
    version_routing_configure(entry->routing, entry->routing);
    *read = NULL;
  } else {
    version_routing_configure(entry->routing, *read);
  }
  atomic_store_explicit(&s->has_rules, true, memory_order_release);
  warn_of_absent(entry);
}

void routing_unloaded(model_entry *entry)
{
  assert(lock_is_held(&entry->lock));
  if (entry->routing != NULL)
    version_routing_configure(entry->routing, NULL);
}

// Once there, the routing stays with the entry.
static version_routing *routing_of(model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  return entry->routing;
}

void routing_cancel_shadows(model_entry *entry)
{
  version_routing *routing = routing_of(entry);
  if (routing != NULL)
    shadows_cancel(&routing->shadows);
}

void routing_cancel_all_shadows(server *s)
{
  model_entry *entry = NULL;
  while ((entry = model_table_next(&s->models, entry)) != NULL)
    routing_cancel_shadows(entry);
}
