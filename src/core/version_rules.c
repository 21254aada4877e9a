// SPDX-License-Identifier: Apache-2.0
// A rule is a pair of texts, <left>=<right>, whatever its source; JSON values are converted to
// texts first.
#include "core/version_rules.h"

#include "base/json_bounds.h"
#include "base/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define MAX_VALUES 256 // in a request's JSON

typedef struct section_form {
  const char *name;
  const char *parameter;
  const char *form;
} section_form;

static const section_form sections[RULE_SECTIONS] = {
    [RULES_LABELS] = {"labels", "version_labels", "<label>=<version>, as in stable=3,canary=4"},
    [RULES_SPLIT] = {"split", "version_split", "<version>=<weight>, as in 3=90,4=10"},
    [RULES_SHADOW] = {"shadow", "version_shadow", "<version>=<per cent>, as in 4=5%"},
};

const char *rule_section_name(rule_section section)
{
  return sections[section].name;
}

const char *rule_section_parameter(rule_section section)
{
  return sections[section].parameter;
}

static bool is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// A good label is a letter or '_', then letters, digits, '_', '-', '.'. "latest" has a meaning of
// its own.
static bool is_good_label(slice text)
{
  if (text.size == 0 || text.size >= VERSION_LABEL_BYTES || !is_letter(text.data[0]))
    return false;
  for (size_t i = 1; i < text.size; i++) {
    char c = text.data[i];
    if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '-' && c != '.')
      return false;
  }
  return true;
}

version_rule *version_rules_find_label(version_rules *rules, slice label)
{
  for (size_t i = 0; i < rules->count; i++)
    if (slice_equal_text(label, rules->items[i].label))
      return &rules->items[i];
  return NULL;
}

version_rule *version_rules_find_version(version_rules *rules, int64_t version)
{
  for (size_t i = 0; i < rules->count; i++)
    if (rules->items[i].version == version)
      return &rules->items[i];
  return NULL;
}

// ---- one rule ----

static error *bad_rule(rule_section section, slice left, slice right, const char *why)
{
  return error_new(ERROR_INVALID_ARG, "%s: '%.*s=%.*s': %s, expected %s", sections[section].name,
                   (int)(left.size < 100 ? left.size : 100), left.data,
                   (int)(right.size < 100 ? right.size : 100), right.data, why,
                   sections[section].form);
}

static bool read_version(slice text, int64_t *version)
{
  return text_to_int64(text, version) && *version > 0;
}

// Reads per cent, with decimals, into millionths.
static bool read_per_cent(slice text, uint32_t *share)
{
  double value;
  if (text.size > 0 && text.data[text.size - 1] == '%')
    text.size--;
  if (!text_to_double(text, &value) || !(value >= 0 && value <= 100))
    return false;
  *share = (uint32_t)(value * (VERSION_SHARE_ALL / 100) + 0.5);
  return value == 0 || *share > 0;
}

static bool read_weight(slice text, uint32_t *share)
{
  int64_t value;
  if (!text_to_int64(text, &value) || value < 0 || value > VERSION_WEIGHT_MAX)
    return false;
  *share = (uint32_t)value;
  return true;
}

static const char *read_label_rule(slice label, slice version, version_rule *rule)
{
  if (slice_equal(label, SLICE("latest")))
    return "'latest' is the highest version, whatever it is";
  if (!is_good_label(label))
    return "a label is a letter or '_', then letters, digits, '_', '-' or '.', 63 bytes at most";
  memcpy(rule->label, label.data, label.size);
  return read_version(version, &rule->version) ? NULL : "a version is a number from 1 on";
}

static const char *read_share_rule(rule_section section, slice version, slice share,
                                   version_rule *rule)
{
  if (!read_version(version, &rule->version))
    return "a version is a number from 1 on";
  if (section == RULES_SPLIT)
    return read_weight(share, &rule->share) ? NULL : "a weight is a number from 0 to 1000000";
  return read_per_cent(share, &rule->share) ? NULL
                                            : "per cent are from 0 to 100, or from 0.0001 on";
}

static bool is_there(version_rules *rules, rule_section section, const version_rule *rule)
{
  return section == RULES_LABELS ? version_rules_find_label(rules, slice_of(rule->label)) != NULL
                                 : version_rules_find_version(rules, rule->version) != NULL;
}

static error *add_rule(version_rules *rules, rule_section section, slice left, slice right)
{
  version_rule rule = {.version = 0};
  if (rules->count == VERSION_RULES_MAX)
    return error_new(ERROR_INVALID_ARG, "%s: more than %d, expected fewer", sections[section].name,
                     VERSION_RULES_MAX);
  const char *why = section == RULES_LABELS ? read_label_rule(left, right, &rule)
                                            : read_share_rule(section, left, right, &rule);
  if (why == NULL && is_there(rules, section, &rule))
    why = "it is there twice";
  if (why != NULL)
    return bad_rule(section, left, right, why);
  rules->items[rules->count++] = rule;
  return NULL;
}

static error *check_rules(const version_rules *rules, rule_section section)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < rules->count; i++)
    sum += rules->items[i].share;
  if (section == RULES_SPLIT && rules->count > 0 && sum == 0)
    return error_new(ERROR_INVALID_ARG, "split: all weights are 0, expected one that is not");
  return NULL;
}

// ---- a configuration's ----

static slice trim(slice text)
{
  while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
    text = (slice){text.data + 1, text.size - 1};
  while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
    text.size--;
  return text;
}

// Takes the part before the first `end`, or all, off `rest`.
static slice take_until(slice *rest, char end)
{
  const char *at = memchr(rest->data, end, rest->size);
  slice taken = {rest->data, at == NULL ? rest->size : (size_t)(at - rest->data)};
  size_t skipped = taken.size + (at != NULL);
  *rest = (slice){rest->data + skipped, rest->size - skipped};
  return trim(taken);
}

static error *read_text(const char *text, rule_section section, version_rules *rules)
{
  slice rest = trim(slice_of(text));
  while (rest.size > 0) {
    slice right = take_until(&rest, ',');
    slice left = take_until(&right, '=');
    RETURN_IF_ERROR(add_rule(rules, section, left, trim(right)));
  }
  return check_rules(rules, section);
}

error *version_rules_read_parameter(const Inference__ModelConfig *config, rule_section section,
                                    version_rules *rules, bool *given)
{
  const char *text = config_parameter(config, sections[section].parameter);
  rules->count = 0;
  *given = text != NULL;
  error *e = *given ? read_text(text, section, rules) : NULL;
  return e == NULL ? NULL : error_wrap(e, "parameter '%s'", sections[section].parameter);
}

bool version_rules_are_given(const Inference__ModelConfig *config)
{
  bool given = false;
  for (size_t s = 0; s < RULE_SECTIONS; s++)
    given = given || config_parameter(config, sections[s].parameter) != NULL;
  return given;
}

error *version_rules_read_config(const Inference__ModelConfig *config,
                                 version_rules rules[RULE_SECTIONS])
{
  error *e = NULL;
  bool given;
  for (size_t s = 0; e == NULL && s < RULE_SECTIONS; s++)
    e = version_rules_read_parameter(config, (rule_section)s, &rules[s], &given);
  return e;
}

// ---- a request's ----

// The text of a value; `space` holds that of a number. False: the value is neither text nor number.
static bool text_of(const json_t *value, char *space, size_t size, slice *text)
{
  if (json_is_string(value)) {
    *text = (slice){json_string_value(value), json_string_length(value)};
    return true;
  }
  if (json_is_integer(value))
    snprintf(space, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
  else if (json_is_real(value))
    snprintf(space, size, "%.12g", json_real_value(value));
  *text = slice_of(space);
  return json_is_number(value);
}

// A label whose value is null is removed.
static error *read_removed(rules_change *change, slice label)
{
  version_rules *rules = &change->rules[RULES_LABELS];
  RETURN_IF_ERROR(add_rule(rules, RULES_LABELS, label, SLICE("1")));
  change->removed[rules->count - 1] = true;
  return NULL;
}

static error *read_section(rules_change *change, rule_section section, json_t *object)
{
  const char *key;
  size_t key_size;
  json_t *value;
  change->given[section] = true;
  change->resets[section] = json_is_null(object);
  if (json_is_null(object))
    return NULL;
  if (!json_is_object(object))
    return error_new(ERROR_INVALID_ARG, "%s: expected an object of %s, or null",
                     sections[section].name, sections[section].form);
  json_object_keylen_foreach(object, key, key_size, value)
  {
    char space[40] = "";
    slice text, name = {key, key_size};
    if (section == RULES_LABELS && json_is_null(value))
      RETURN_IF_ERROR(read_removed(change, name));
    else if (!text_of(value, space, sizeof(space), &text))
      return bad_rule(section, name, SLICE(""), "the value is neither a number nor a text");
    else
      RETURN_IF_ERROR(add_rule(&change->rules[section], section, name, text));
  }
  return check_rules(&change->rules[section], section);
}

static error *read_member(rules_change *change, const char *key, json_t *value)
{
  for (size_t s = 0; s < RULE_SECTIONS; s++)
    if (strcmp(key, sections[s].name) == 0)
      return read_section(change, (rule_section)s, value);
  return error_new(ERROR_INVALID_ARG, "'%.100s' is unknown, expected labels, split or shadow", key);
}

error *rules_change_read(slice json, rules_change *change)
{
  json_error_t where;
  const char *key;
  json_t *value;
  memset(change, 0, sizeof(*change));
  RETURN_IF_ERROR(json_bounds_check(json, MAX_VALUES));
  json_t *object = json_loadb(json.data, json.size, JSON_REJECT_DUPLICATES, &where);
  error *e = NULL;
  if (object == NULL)
    return error_new(ERROR_INVALID_ARG, "failed to parse the request JSON buffer: %s at %d",
                     where.text, where.position);
  if (!json_is_object(object))
    e = error_new(ERROR_INVALID_ARG, "expected an object with labels, split or shadow");
  json_object_foreach(object, key, value)
  {
    e = e == NULL ? read_member(change, key, value) : e;
  }
  json_decref(object);
  return e;
}

error *rules_change_labels(const rules_change *change, const version_rules *now,
                           version_rules *result)
{
  const version_rules *wanted = &change->rules[RULES_LABELS];
  version_rules *named = (version_rules *)wanted;
  result->count = 0;
  for (size_t i = 0; i < now->count; i++)
    if (version_rules_find_label(named, slice_of(now->items[i].label)) == NULL)
      result->items[result->count++] = now->items[i];
  for (size_t i = 0; i < wanted->count; i++) {
    if (change->removed[i])
      continue;
    if (result->count == VERSION_RULES_MAX)
      return error_new(ERROR_INVALID_ARG, "labels: more than %d, expected fewer",
                       VERSION_RULES_MAX);
    result->items[result->count++] = wanted->items[i];
  }
  return NULL;
}

void version_rules_print(const version_rules *rules, rule_section section, buffer *out)
{
  buffer_append_char(out, '{');
  for (size_t i = 0; i < rules->count; i++) {
    const version_rule *rule = &rules->items[i];
    buffer_append_text(out, i == 0 ? "" : ",");
    if (section == RULES_LABELS)
      buffer_append_format(out, "\"%s\":%" PRId64, rule->label, rule->version);
    else if (section == RULES_SPLIT)
      buffer_append_format(out, "\"%" PRId64 "\":%" PRIu32, rule->version, rule->share);
    else
      buffer_append_format(out, "\"%" PRId64 "\":%.9g", rule->version,
                           (double)rule->share / (VERSION_SHARE_ALL / 100));
  }
  buffer_append_char(out, '}');
}
