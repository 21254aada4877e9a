// SPDX-License-Identifier: Apache-2.0
// Any bytes as a SavedModel's saved_model.pb, or as a GraphDef. What is accepted, and what is left
// of what is refused, has named tensors, each with a place in the graph.
#include "base/text.h"
#include "fuzz.h"
#include "tf_file.h"

static void check_name(const char *name)
{
  const size_t size = strlen(name);
  CHECK(size > 0);
  for (size_t i = 0; i < size;) {
    const size_t length = text_utf8_length(name + i, size - i);
    CHECK(length > 0);
    i += length;
  }
}

static void check_and_free(framework_tensors *tensors, const tf_nodes *nodes)
{
  CHECK(tensors->count == nodes->count && tensors->count <= TF_FILE_TENSORS_MAX);
  for (size_t i = 0; i < tensors->count; i++) {
    const framework_tensor *tensor = &tensors->list[i];
    CHECK(tensor->position == i && tensor->shape.rank <= BACKEND_MAX_RANK);
    for (size_t k = 0; k < tensor->shape.rank; k++)
      CHECK(tensor->shape.dims[k] >= -1);
    check_name(tensor->name);
    check_name(nodes->names[i]);
  }
  framework_tensors_clear(tensors);
}

static TRITONSERVER_Error *read_any(tf_file *file, slice bytes, uint8_t how)
{
  const tf_choice choice = {
      .model = "m", .tag = (how & 2) != 0 ? "other" : "", .signature = (how & 4) != 0 ? "s" : ""};
  if ((how & 1) == 0)
    return tf_file_read_saved_model(file, bytes, &choice);
  json_t *wanted = json_pack("{s:b,s:b}", "OUTPUT0", 1, "OUTPUT", 1);
  CHECK(wanted != NULL);
  TRITONSERVER_Error *error = tf_file_read_graph(file, bytes, "m", wanted);
  json_decref(wanted);
  return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input = {data, size};
  framework_signature signature = {0};
  tf_file file = {.signature = &signature};
  const uint8_t how = fuzz_byte(&input);
  char *copy = malloc(input.size > 0 ? input.size : 1); // a sanitizer sees its end
  CHECK(copy != NULL);
  if (input.size > 0)
    memcpy(copy, input.data, input.size);
  TRITONSERVER_Error *error = read_any(&file, (slice){copy, input.size}, how);
  CHECK(error == NULL || TRITONSERVER_ErrorMessage(error)[0] != '\0');
  TRITONSERVER_ErrorDelete(error);
  check_and_free(&signature.inputs, &file.inputs);
  check_and_free(&signature.outputs, &file.outputs);
  tf_file_fini(&file);
  free(copy);
  return 0;
}
