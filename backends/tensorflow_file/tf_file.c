// SPDX-License-Identifier: Apache-2.0
// Parses SavedModel and GraphDef. Field numbers are those of TensorFlow's saved_model.proto,
// meta_graph.proto, graph.proto, function.proto and tensor_shape.proto.
#include "tf_file.h"

#include "backend_error.h"
#include "base/proto_read.h"
#include "base/text.h"
#include "tf_dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAVED_MODEL_META_GRAPH 2
#define META_GRAPH_INFO        1
#define META_GRAPH_GRAPH       2
#define META_GRAPH_SIGNATURE   5
#define INFO_TAG               4
#define GRAPH_NODE             1
#define GRAPH_LIBRARY          2
#define LIBRARY_FUNCTION       1
#define FUNCTION_NODE          3
#define NODE_NAME              1
#define NODE_OPERATOR          2
#define MAP_KEY                1
#define MAP_VALUE              2
#define SIGNATURE_INPUT        1
#define SIGNATURE_OUTPUT       2
#define TENSOR_NAME            1
#define TENSOR_DTYPE           2
#define TENSOR_SHAPE           3
#define SHAPE_DIM              2
#define SHAPE_UNKNOWN_RANK     3
#define DIM_SIZE               1

void tf_file_fini(tf_file *self)
{
  tf_nodes *const lists[] = {&self->inputs, &self->outputs};
  for (size_t i = 0; i < 2; i++) {
    for (size_t k = 0; k < lists[i]->count; k++)
      free(lists[i]->names[k]);
    free(lists[i]->names);
    *lists[i] = (tf_nodes){0};
  }
}

static TRITONSERVER_Error *broken(const char *what)
{
  return backend_error_invalid("it is not a %s: not a message in protobuf's wire format", what);
}

// The content of the last field `number`, as protobuf requires; without data when it is absent.
static slice find_bytes(slice message, uint32_t number)
{
  proto_reader r = proto_reader_of(message);
  slice found = {0};
  while (proto_next_bytes(&r, number, &found))
    ;
  return found;
}

// ---- operators ----

static bool contains(slice text, const char *part)
{
  return text.size > 0 && memmem(text.data, text.size, part, strlen(part)) != NULL;
}

// Such operators may keep their inputs after the run.
static bool may_keep(slice op)
{
  static const char *const parts[] = {"Assign",  "Queue",       "Stage",   "Stack",
                                      "Barrier", "TensorArray", "Dataset", "Iterator",
                                      "Map",     "Accumulator", "Session", "PyFunc"};
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
    if (contains(op, parts[i]))
      return true;
  return slice_equal_text(op, "Batch") || slice_equal_text(op, "BatchFunction") ||
         slice_equal_text(op, "Unbatch");
}

static void look_at_nodes(tf_file *self, slice message, uint32_t number)
{
  proto_reader r = proto_reader_of(message);
  slice node;
  while (!self->keeps_inputs && proto_next_bytes(&r, number, &node))
    self->keeps_inputs = may_keep(find_bytes(node, NODE_OPERATOR));
}

static void look_at_graph(tf_file *self, slice graph)
{
  proto_reader functions = proto_reader_of(find_bytes(graph, GRAPH_LIBRARY));
  slice function;
  look_at_nodes(self, graph, GRAPH_NODE);
  while (proto_next_bytes(&functions, LIBRARY_FUNCTION, &function))
    look_at_nodes(self, function, FUNCTION_NODE);
}

// ---- tensors ----

// A name as text for free(). NULL when it is not valid in JSON, or without memory.
static char *copy_name(slice name)
{
  for (size_t i = 0; i < name.size;) {
    const size_t length = name.data[i] == '\0' ? 0 : text_utf8_length(name.data + i, name.size - i);
    if (length == 0)
      return NULL;
    i += length;
  }
  return name.size == 0 ? NULL : strndup(name.data, name.size);
}

// Makes room for one more tensor; its position is the last.
static TRITONSERVER_Error *add_tensor(framework_tensors *tensors, tf_nodes *nodes, slice name,
                                      slice node, framework_tensor **added)
{
  if (nodes->count == TF_FILE_TENSORS_MAX)
    return backend_error_invalid("it has more than %d inputs or outputs", TF_FILE_TENSORS_MAX);
  if ((nodes->count & (nodes->count - 1)) == 0) { // doubles the room
    const size_t room = nodes->count > 0 ? 2 * nodes->count : 1;
    framework_tensor *list = reallocarray(tensors->list, room, sizeof(*list));
    tensors->list = list != NULL ? list : tensors->list;
    char **names = reallocarray(nodes->names, room, sizeof(*names));
    nodes->names = names != NULL ? names : nodes->names;
    if (list == NULL || names == NULL)
      return backend_error_no_memory("the model's tensors");
  }
  char *own_name = copy_name(name), *own_node = copy_name(node);
  if (own_name == NULL || own_node == NULL) {
    free(own_name);
    free(own_node);
    return backend_error_invalid("it has a tensor whose name is not a text");
  }
  *added = &tensors->list[tensors->count++];
  **added = (framework_tensor){.name = own_name, .position = nodes->count};
  nodes->names[nodes->count++] = own_node;
  return NULL;
}

// A shape of unknown rank is shown as [-1], and nothing is checked against it.
static void set_any_rank(framework_tensor *tensor)
{
  tensor->any_rank = true;
  tensor->shape = (backend_shape){.rank = 1, .dims = {-1}};
}

static int64_t read_dim(slice dim)
{
  proto_reader r = proto_reader_of(dim);
  proto_field field;
  int64_t size = 0;
  while (proto_next(&r, &field))
    if (field.number == DIM_SIZE && field.type == PROTO_VARINT)
      size = (int64_t)field.value;
  return size < 0 ? -1 : size;
}

// As in Triton, nothing is checked against a shape without dimensions.
static bool read_shape(slice message, framework_tensor *tensor)
{
  proto_reader r = proto_reader_of(message);
  proto_field field;
  bool unknown = false;
  while (proto_next(&r, &field)) {
    if (field.number == SHAPE_UNKNOWN_RANK && field.type == PROTO_VARINT)
      unknown = field.value != 0;
    if (field.number != SHAPE_DIM || field.type != PROTO_BYTES)
      continue;
    if (tensor->shape.rank == BACKEND_MAX_RANK)
      return false;
    tensor->shape.dims[tensor->shape.rank++] = read_dim(field.bytes);
  }
  if (unknown)
    set_any_rank(tensor);
  else
    tensor->any_rank = tensor->shape.rank == 0;
  return true;
}

static TRITONSERVER_Error *refuse(framework_tensor *tensor, bool is_input, const char *model,
                                  const char *what, const char *value)
{
  if (asprintf(&tensor->refusal, "unable to process %s '%s' for '%s', unsupported %s '%s'",
               is_input ? "input" : "output", tensor->name, model, what, value) >= 0)
    return NULL;
  tensor->refusal = NULL;
  return backend_error_no_memory("the model's tensors");
}

// Reads an entry of the signature's map of inputs or outputs.
static TRITONSERVER_Error *read_tensor(slice entry, bool is_input, const char *model,
                                       framework_tensors *tensors, tf_nodes *nodes)
{
  const slice info = find_bytes(entry, MAP_VALUE);
  const slice name = find_bytes(entry, MAP_KEY), node = find_bytes(info, TENSOR_NAME);
  framework_tensor *tensor;
  proto_reader r = proto_reader_of(info);
  proto_field field;
  slice shape = {0};
  // A sparse tensor consists of three tensors, none of which has this name.
  BACKEND_RETURN_IF_ERROR(
      add_tensor(tensors, nodes, name, node.size > 0 ? node : SLICE("(sparse)"), &tensor));
  while (proto_next(&r, &field)) {
    if (field.number == TENSOR_DTYPE && field.type == PROTO_VARINT)
      tensor->native_type = (int)field.value;
    else if (field.number == TENSOR_SHAPE && field.type == PROTO_BYTES)
      shape = field.bytes;
  }
  if (r.broken)
    return broken("SavedModel");
  tensor->datatype = tf_datatype(node.size > 0 ? tensor->native_type : 0);
  if (!read_shape(shape, tensor))
    return refuse(tensor, is_input, model, "rank", "more than 64");
  return tensor->datatype != TRITONSERVER_TYPE_INVALID
             ? NULL
             : refuse(tensor, is_input, model, "datatype", tf_dtype_name(tensor->native_type));
}

static TRITONSERVER_Error *read_signature(tf_file *self, slice signature, const char *model)
{
  proto_reader r = proto_reader_of(signature);
  proto_field field;
  while (proto_next(&r, &field)) {
    if (field.type != PROTO_BYTES)
      continue;
    if (field.number == SIGNATURE_INPUT)
      BACKEND_RETURN_IF_ERROR(
          read_tensor(field.bytes, true, model, &self->signature->inputs, &self->inputs));
    else if (field.number == SIGNATURE_OUTPUT)
      BACKEND_RETURN_IF_ERROR(
          read_tensor(field.bytes, false, model, &self->signature->outputs, &self->outputs));
  }
  return r.broken ? broken("SavedModel") : NULL;
}

// ---- SavedModel ----

// Whether the signature may be used when none is asked for.
static bool is_usual(slice key)
{
  return !slice_equal_text(key, "__saved_model_init_op") &&
         !slice_equal_text(key, "__saved_model_train_op");
}

// The wanted signature's entry in its map; without data when it is absent.
static slice find_signature(slice meta_graph, const tf_choice *choice)
{
  const char *wanted = choice->signature[0] != '\0' ? choice->signature : "serving_default";
  proto_reader r = proto_reader_of(meta_graph);
  slice entry, any = {0};
  while (proto_next_bytes(&r, META_GRAPH_SIGNATURE, &entry)) {
    const slice key = find_bytes(entry, MAP_KEY);
    if (slice_equal_text(key, wanted))
      return entry;
    if (choice->signature[0] == '\0' && any.data == NULL && is_usual(key))
      any = entry;
  }
  return any;
}

// TensorFlow looks for the set of tags.
static bool has_tag(slice meta_graph, const char *wanted)
{
  proto_reader r = proto_reader_of(find_bytes(meta_graph, META_GRAPH_INFO));
  slice tag;
  bool same = proto_next_bytes(&r, INFO_TAG, &tag) && slice_equal_text(tag, wanted);
  while (proto_next_bytes(&r, INFO_TAG, &tag))
    same = same && slice_equal_text(tag, wanted);
  return same;
}

TRITONSERVER_Error *tf_file_read_saved_model(tf_file *self, slice bytes, const tf_choice *choice)
{
  const char *tag = choice->tag[0] != '\0' ? choice->tag : "serve";
  proto_reader r = proto_reader_of(bytes);
  slice meta_graph, found = {0};
  while (proto_next_bytes(&r, SAVED_MODEL_META_GRAPH, &meta_graph))
    if (found.data == NULL && has_tag(meta_graph, tag))
      found = meta_graph;
  if (r.broken)
    return broken("SavedModel");
  if (found.data == NULL)
    return backend_error_invalid("unable to load model '%s', expected '%s' tag", choice->model,
                                 tag);
  const slice entry = find_signature(found, choice);
  if (entry.data == NULL)
    return backend_error_invalid(
        "unable to load model '%s', expected '%s' signature", choice->model,
        choice->signature[0] != '\0' ? choice->signature : "serving_default");
  look_at_graph(self, find_bytes(found, META_GRAPH_GRAPH));
  return read_signature(self, find_bytes(entry, MAP_VALUE), choice->model);
}

// ---- GraphDef ----

static bool is_wanted(slice name, const json_t *wanted)
{
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)wanted, key, value)
  {
    if (slice_equal_text(name, key))
      return true;
  }
  return false;
}

static TRITONSERVER_Error *read_node(tf_file *self, slice node, const json_t *wanted)
{
  const slice name = find_bytes(node, NODE_NAME), op = find_bytes(node, NODE_OPERATOR);
  const bool is_input = slice_equal_text(op, "Placeholder");
  framework_tensor *tensor;
  if (!is_input && !is_wanted(name, wanted))
    return NULL;
  BACKEND_RETURN_IF_ERROR(
      is_input ? add_tensor(&self->signature->inputs, &self->inputs, name, name, &tensor)
               : add_tensor(&self->signature->outputs, &self->outputs, name, name, &tensor));
  tensor->any_type = true;
  set_any_rank(tensor);
  return NULL;
}

TRITONSERVER_Error *tf_file_read_graph(tf_file *self, slice bytes, const char *model,
                                       const json_t *wanted)
{
  proto_reader r = proto_reader_of(bytes);
  slice node;
  bool empty = true;
  while (proto_next_bytes(&r, GRAPH_NODE, &node)) {
    empty = false;
    BACKEND_RETURN_IF_ERROR(read_node(self, node, wanted));
  }
  if (r.broken)
    return broken("GraphDef");
  if (empty)
    return backend_error_invalid("model %s has an empty network", model);
  look_at_graph(self, bytes);
  self->signature->open = true;
  return NULL;
}
