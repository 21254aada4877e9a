// SPDX-License-Identifier: Apache-2.0
// Names without a model: conventions and call specifications.
#include "torch_names.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEPTH 32 // of nested arguments

// ---- conventions ----

bool torch_index_of(const char *name, size_t *index)
{
  const char *at = strstr(name, "__");
  uint64_t number = 0; // 0 also without a number, as in Triton
  if (at == NULL || (at[2] != '\0' && !text_to_uint64(slice_of(at + 2), &number)))
    return false;
  *index = number;
  return true;
}

// As in Triton, "KWARGSscale" is taken for "KWARGS[scale]".
static bool is_same(const char *known, const char *name)
{
  static const char prefix[] = "KWARGS";
  const size_t length = strlen(known);
  if (strcmp(known, name) == 0)
    return true;
  return strncmp(known, prefix, 6) == 0 && strncmp(name, prefix, 6) == 0 && length > 8 &&
         strlen(name) == length - 2 && strncmp(known + 7, name + 6, length - 8) == 0;
}

static bool find_known(const torch_known *known, const char *name, size_t *position)
{
  for (*position = 0; *position < json_array_size(known->names); ++*position)
    if (is_same(json_string_value(json_array_get(known->names, *position)), name))
      return true;
  return false;
}

torch_convention torch_convention_of(const json_t *names, const torch_known *known,
                                     const char **culprit)
{
  size_t i, position;
  const json_t *name;
  bool named = json_array_size(known->names) > 0, indexed = true;
  *culprit = NULL;
  if (known->any)
    return TORCH_BY_ORDER;
  json_array_foreach((json_t *)names, i, name)
  {
    const char *text = json_string_value(name);
    const bool has_index = torch_index_of(text, &position);
    const bool is_known = find_known(known, text, &position);
    if (known->mixed && (is_known || has_index))
      continue;
    named = named && is_known && !known->mixed;
    indexed = indexed && has_index;
    if (!has_index && !is_known && *culprit == NULL)
      *culprit = text;
  }
  if (named)
    return TORCH_BY_NAME;
  return indexed ? TORCH_BY_INDEX : TORCH_BY_ORDER;
}

bool torch_position_of(torch_convention convention, const char *name, const torch_known *known,
                       size_t order, size_t *position)
{
  bool found = true;
  *position = order;
  if (known->any)
    return true;
  if (convention != TORCH_BY_ORDER && known->mixed)
    found = find_known(known, name, position) || torch_index_of(name, position);
  else if (convention == TORCH_BY_NAME)
    found = find_known(known, name, position);
  else if (convention == TORCH_BY_INDEX)
    found = torch_index_of(name, position);
  return found && (!known->counted || *position < known->count);
}

// ---- call specifications ----

// The keys of a dictionary, as JSON or as JSON in a text; NULL without keys.
static json_t *keys_of(const json_t *node)
{
  const json_t *context = json_object_get(node, "context");
  json_t *keys = json_is_string(context)
                     ? json_loads(json_string_value(context), JSON_DECODE_ANY, NULL)
                     : json_incref((json_t *)context);
  if (json_is_array(keys) &&
      json_array_size(keys) == json_array_size(json_object_get(node, "children_spec")))
    return keys;
  json_decref(keys);
  return NULL;
}

static bool add_names(const json_t *node, const char *prefix, int depth, json_t *names);

static bool add_child(const json_t *child, const json_t *key, size_t index, const char *prefix,
                      int depth, json_t *names)
{
  char *name = NULL;
  const int length = json_is_string(key) ? asprintf(&name, "%s[%s]", prefix, json_string_value(key))
                                         : asprintf(&name, "%s[%zu]", prefix, index);
  const bool added = length >= 0 && add_names(child, name, depth + 1, names);
  free(length >= 0 ? name : NULL);
  return added;
}

// A node without a type is a tensor; others have children.
static bool add_names(const json_t *node, const char *prefix, int depth, json_t *names)
{
  const json_t *children = json_object_get(node, "children_spec");
  size_t i;
  const json_t *child;
  if (!json_is_object(node) || depth > MOST_DEPTH)
    return false;
  if (!json_is_string(json_object_get(node, "type")))
    return json_array_append_new(names, json_string(prefix)) == 0;
  json_t *keys = keys_of(node);
  bool added = true;
  json_array_foreach((json_t *)children, i, child)
  {
    if (added)
      added = add_child(child, json_array_get(keys, i), i, prefix, depth, names);
  }
  json_decref(keys);
  return added;
}

// Parses [version, node].
static json_t *parse(const char *specification)
{
  json_t *whole = specification == NULL ? NULL : json_loads(specification, 0, NULL);
  json_t *node = json_incref(json_array_get(whole, 1));
  json_decref(whole);
  return node;
}

static json_t *given_if(bool right, json_t *names)
{
  if (right)
    return names;
  json_decref(names);
  return NULL;
}

json_t *torch_input_names(const char *specification)
{
  json_t *node = parse(specification), *names = json_array();
  const json_t *parts = json_object_get(node, "children_spec"); // positional, by keyword
  const bool right = names != NULL && json_array_size(parts) == 2 &&
                     add_names(json_array_get(parts, 0), "ARGS", 0, names) &&
                     add_names(json_array_get(parts, 1), "KWARGS", 0, names);
  json_decref(node);
  return given_if(right, names);
}

json_t *torch_output_names(const char *specification)
{
  json_t *node = parse(specification), *names = json_array();
  const bool right = names != NULL && add_names(node, "RESULT", 0, names);
  json_decref(node);
  return given_if(right, names);
}
