// SPDX-License-Identifier: Apache-2.0
// --config files. The main thread calls it once.
#include "daemon/yaml_config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

typedef struct yaml_reader {
  daemon_options *options;
  const char *path;
  yaml_document_t document;
} yaml_reader;

static error *at_line(const yaml_reader *r, const yaml_node_t *node, error *cause_owned)
{
  return error_wrap(cause_owned, "%s:%zu", r->path, node->start_mark.line + 1);
}

static error *expected_at(const yaml_reader *r, const yaml_node_t *node, const char *what)
{
  return at_line(r, node, error_new(ERROR_INVALID_ARG, "expected %s", what));
}

// The text of a scalar, or NULL: a flag's value must be a scalar without a NUL.
static const char *text_of(const yaml_node_t *node)
{
  if (node->type != YAML_SCALAR_NODE)
    return NULL;
  const char *text = (const char *)node->data.scalar.value;
  return strlen(text) == node->data.scalar.length ? text : NULL;
}

static error *set_option(yaml_reader *r, const option *o, const yaml_node_t *value)
{
  const char *text = text_of(value);
  if (text == NULL)
    return at_line(
        r, value,
        error_new(ERROR_INVALID_ARG, "'%s': expected a value or a list of values", o->name));
  error *e = option_set(r->options, o, text);
  return e == NULL ? NULL : at_line(r, value, e);
}

static error *read_pair(yaml_reader *r, const yaml_node_t *key, const yaml_node_t *value)
{
  const char *name = text_of(key);
  if (name == NULL)
    return expected_at(r, key, "the name of a flag");
  const option *o = option_find(name);
  if (o == NULL)
    return at_line(r, key, option_unknown(NULL, "", name));
  if (strcmp(name, "config") == 0 || strcmp(name, "help") == 0)
    return at_line(r, key,
                   error_new(ERROR_INVALID_ARG, "'%s': it is for the command line only", name));
  if (value->type != YAML_SEQUENCE_NODE || o->kind != OPTION_LIST)
    return set_option(r, o, value);
  for (const yaml_node_item_t *item = value->data.sequence.items.start;
       item < value->data.sequence.items.top; item++)
    RETURN_IF_ERROR(set_option(r, o, yaml_document_get_node(&r->document, *item)));
  return NULL;
}

static error *read_document(yaml_reader *r)
{
  const yaml_node_t *root = yaml_document_get_root_node(&r->document);
  if (root == NULL)
    return NULL; // an empty file says nothing
  if (root->type != YAML_MAPPING_NODE)
    return expected_at(r, root, "a mapping of flag names to values");
  for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start;
       pair < root->data.mapping.pairs.top; pair++)
    RETURN_IF_ERROR(read_pair(r, yaml_document_get_node(&r->document, pair->key),
                              yaml_document_get_node(&r->document, pair->value)));
  return NULL;
}

static error *load_document(yaml_reader *r, yaml_parser_t *parser, FILE *file)
{
  if (yaml_parser_load(parser, &r->document))
    return NULL;
  if (ferror(file))
    return error_new(ERROR_INVALID_ARG, "--config: failed to read '%s': %s", r->path,
                     strerror(errno));
  return error_new(ERROR_INVALID_ARG, "%s:%zu: %s", r->path, parser->problem_mark.line + 1,
                   parser->problem != NULL ? parser->problem : "not valid YAML");
}

// A file has one document: flags in a second one would be ignored silently.
static error *check_end(yaml_reader *r, yaml_parser_t *parser, FILE *file)
{
  RETURN_IF_ERROR(load_document(r, parser, file));
  const yaml_node_t *root = yaml_document_get_root_node(&r->document);
  error *e = root == NULL ? NULL : expected_at(r, root, "one document of flags");
  yaml_document_delete(&r->document);
  return e;
}

static error *read_yaml_file(yaml_reader *r, FILE *file)
{
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser))
    return error_no_memory();
  yaml_parser_set_input_file(&parser, file);
  error *e = load_document(r, &parser, file);
  if (e == NULL) {
    e = read_document(r);
    yaml_document_delete(&r->document);
  }
  if (e == NULL)
    e = check_end(r, &parser, file);
  yaml_parser_delete(&parser);
  return e;
}

error *yaml_config_read(daemon_options *options, const char *path)
{
  yaml_reader r = {.options = options, .path = path};
  FILE *file = fopen(path, "re");
  if (file == NULL)
    return error_new(ERROR_INVALID_ARG, "--config: failed to open '%s': %s", path, strerror(errno));
  error *e = read_yaml_file(&r, file);
  fclose(file);
  return e;
}
