// SPDX-License-Identifier: Apache-2.0
// Checks a model's fields one by one.
#include "fil_trees.h"

#include "backend_error.h"

#include <stdlib.h>
#include <string.h>

// Values of treelite's TaskType.
#define TASK_BINARY_CLASSIFIER     0
#define TASK_MULTICLASS_CLASSIFIER 2

// The fields of a tree, one value per node.
typedef struct tree_nodes {
  size_t count;
  const int32_t *left, *right, *feature;
  const uint64_t *vector_begin, *vector_end;
  const uint64_t *category_begin, *category_end;
  size_t vector_count, category_count; // of the values in these ranges
} tree_nodes;

static TRITONSERVER_Error *damaged(const char *what)
{
  return backend_error_invalid("the file is damaged: %s", what);
}

// A field with at least `least` values of `item_size` bytes; *data is NULL when there are none.
static TRITONSERVER_Error *read_header(const treelite *t, treelite_model *model, const char *name,
                                       size_t item_size, size_t least, const void **data)
{
  treelite_field field = {0};
  if (t->GetHeaderField(model, name, &field) != 0)
    return backend_error_internal("treelite has no field '%s'", name);
  if (field.item_size != item_size || field.count < least)
    return damaged(name);
  *data = field.data;
  return NULL;
}

// Each tree adds to one class, or with vectors to all of them: -1.
static TRITONSERVER_Error *check_ids(const treelite *t, treelite_model *model,
                                     const fil_shape *shape)
{
  const void *classes = NULL, *targets = NULL, *scores = NULL;
  BACKEND_RETURN_IF_ERROR(read_header(t, model, "class_id", 4, shape->trees, &classes));
  BACKEND_RETURN_IF_ERROR(read_header(t, model, "target_id", 4, shape->trees, &targets));
  BACKEND_RETURN_IF_ERROR(read_header(t, model, "base_scores", 8, (size_t)shape->classes, &scores));
  for (size_t i = 0; i < shape->trees; i++) {
    const int32_t id = ((const int32_t *)classes)[i], target = ((const int32_t *)targets)[i];
    if (id < -1 || id >= shape->classes || target < -1 || target > 0)
      return damaged("a tree is of a class that there is not");
    if (id == -1 && shape->classes > 1 && !shape->has_vectors)
      return damaged("a tree without vectors is of all classes");
  }
  return NULL;
}

static TRITONSERVER_Error *read_shape(const treelite *t, treelite_model *model, fil_shape *shape)
{
  const void *task = NULL, *targets = NULL, *classes = NULL, *vector = NULL;
  if (t->QueryNumTree(model, &shape->trees) != 0 ||
      t->QueryNumFeature(model, &shape->features) != 0)
    return backend_error_internal("treelite: %s", t->GetLastError());
  BACKEND_RETURN_IF_ERROR(read_header(t, model, "task_type", 1, 1, &task));
  BACKEND_RETURN_IF_ERROR(read_header(t, model, "num_target", 4, 1, &targets));
  BACKEND_RETURN_IF_ERROR(read_header(t, model, "num_class", 4, 1, &classes));
  BACKEND_RETURN_IF_ERROR(read_header(t, model, "leaf_vector_shape", 4, 2, &vector));
  if (*(const int32_t *)targets != 1)
    return backend_error(TRITONSERVER_ERROR_UNSUPPORTED, "Multi-target model not supported");
  const int32_t *sides = vector;
  const uint8_t kind = *(const uint8_t *)task;
  shape->classes = *(const int32_t *)classes;
  shape->is_classifier = kind == TASK_BINARY_CLASSIFIER || kind == TASK_MULTICLASS_CLASSIFIER;
  shape->has_vectors = sides[1] > 1;
  if (shape->features < 0 || shape->classes < 1)
    return damaged("it has an impossible number of features or classes");
  if (sides[0] != 1 || (sides[1] != 1 && sides[1] != shape->classes))
    return damaged("its leaves have another number of values than it has classes");
  return check_ids(t, model, shape);
}

static TRITONSERVER_Error *read_nodes(const treelite *t, treelite_model *model, size_t tree,
                                      tree_nodes *nodes)
{
  const struct {
    const char *name;
    size_t item_size;
    const void *data;
  } table[] = {{"cleft", 4, &nodes->left},
               {"cright", 4, &nodes->right},
               {"split_index", 4, &nodes->feature},
               {"leaf_vector_begin", 8, &nodes->vector_begin},
               {"leaf_vector_end", 8, &nodes->vector_end},
               {"category_list_begin", 8, &nodes->category_begin},
               {"category_list_end", 8, &nodes->category_end}};
  static const char *const one_each[] = {"node_type", "default_left", "leaf_value",
                                         "threshold", "cmp",          "category_list_right_child"};
  treelite_field field = {0};
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    if (t->GetTreeField(model, tree, table[i].name, &field) != 0 ||
        field.item_size != table[i].item_size || (i > 0 && field.count != nodes->count))
      return damaged(table[i].name);
    nodes->count = field.count;
    memcpy((void *)table[i].data, &field.data, sizeof(field.data));
  }
  for (size_t i = 0; i < sizeof(one_each) / sizeof(one_each[0]); i++)
    if (t->GetTreeField(model, tree, one_each[i], &field) != 0 || field.count != nodes->count)
      return damaged(one_each[i]);
  if (t->GetTreeField(model, tree, "leaf_vector", &field) != 0)
    return damaged("leaf_vector");
  nodes->vector_count = field.count;
  if (t->GetTreeField(model, tree, "category_list", &field) != 0)
    return damaged("category_list");
  nodes->category_count = field.count;
  return NULL;
}

// treelite reads a leaf with a vector as a vector, whatever the model says.
static TRITONSERVER_Error *check_leaf(const tree_nodes *n, size_t i, const fil_shape *shape)
{
  if (n->vector_end[i] > n->vector_count || n->vector_begin[i] > n->vector_end[i])
    return damaged("a leaf has values that are not there");
  if (shape->has_vectors && n->vector_end[i] - n->vector_begin[i] != (uint64_t)shape->classes)
    return damaged("a leaf has another number of values than the model has classes");
  return NULL;
}

// If no node is the child of two, and the root of none, there is no circle.
static TRITONSERVER_Error *check_children(const tree_nodes *n, size_t i, uint8_t *is_child)
{
  const int32_t children[] = {n->left[i], n->right[i]};
  for (int k = 0; k < 2; k++) {
    if (children[k] <= 0 || (size_t)children[k] >= n->count || is_child[children[k]])
      return damaged("nodes of a tree are in a circle or not there");
    is_child[children[k]] = 1;
  }
  return NULL;
}

static TRITONSERVER_Error *check_nodes(const tree_nodes *n, const fil_shape *shape,
                                       uint8_t *is_child)
{
  for (size_t i = 0; i < n->count; i++) {
    if (n->left[i] == -1) {
      BACKEND_RETURN_IF_ERROR(check_leaf(n, i, shape));
      continue;
    }
    if (n->feature[i] < 0 || n->feature[i] >= shape->features)
      return damaged("a node asks for a feature that there is not");
    if (n->category_end[i] > n->category_count || n->category_begin[i] > n->category_end[i])
      return damaged("a node has categories that are not there");
    BACKEND_RETURN_IF_ERROR(check_children(n, i, is_child));
  }
  return NULL;
}

TRITONSERVER_Error *fil_trees_check(const treelite *t, treelite_model *model, fil_shape *shape)
{
  BACKEND_RETURN_IF_ERROR(read_shape(t, model, shape));
  for (size_t i = 0; i < shape->trees; i++) {
    tree_nodes nodes = {0};
    BACKEND_RETURN_IF_ERROR(read_nodes(t, model, i, &nodes));
    if (nodes.count == 0)
      return damaged("a tree has no nodes");
    uint8_t *is_child = calloc(nodes.count, 1);
    if (is_child == NULL)
      return backend_error_no_memory("the model's trees");
    TRITONSERVER_Error *error = check_nodes(&nodes, shape, is_child);
    free(is_child);
    BACKEND_RETURN_IF_ERROR(error);
  }
  return NULL;
}
