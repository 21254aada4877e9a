// SPDX-License-Identifier: Apache-2.0
// Opens OpenVINO with dlopen.
#include "ov_model.h"

#include "backend_error.h"
#include "base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ERROR_TEXT 2000 // some list every operator

// In older versions a model whose output is its input may return the previous run's data when the
// output has other memory than OpenVINO's.
#define IN_PLACE_SINCE "2025.4"

// ---- the library ----

static TRITONSERVER_Error *load_functions(ov_runtime *runtime)
{
  void *library = NULL;
  const framework_function functions[] = {
#define OV_ROW(function, result, arguments)                                                        \
  {.name = "ov_" #function, .member = &runtime->api.function},
      OV_FUNCTIONS(OV_ROW)
#undef OV_ROW
          {.name = "ov_core_add_extension",
           .member = &runtime->api.core_add_extension,
           .optional = true},
  };
  BACKEND_RETURN_IF_ERROR(framework_open_file(runtime->path, &library));
  return framework_find_functions(library, runtime->path, "OpenVINO 2024.3 or newer", functions,
                                  sizeof(functions) / sizeof(functions[0]));
}

static TRITONSERVER_Error *read_version(ov_runtime *runtime)
{
  ov_version version = {0};
  OV_TRY(runtime, get_openvino_version(&version), "reading its version");
  snprintf(runtime->version, sizeof(runtime->version), "%.*s",
           (int)strcspn(version.build_number, "-"), version.build_number);
  runtime->api.version_free(&version);
  runtime->computes_in_place = strverscmp(runtime->version, IN_PLACE_SINCE) >= 0;
  return NULL;
}

// A type of 32 bits in newer versions has 16 bits in older ones.
static TRITONSERVER_Error *find_shift(ov_runtime *runtime)
{
  int64_t one = 1;
  size_t size = 0;
  ov_tensor *tensor = NULL;
  const ov_shape shape = {.rank = 1, .dims = &one};
  OV_TRY(runtime, tensor_create(OV_F32, shape, &tensor), "making a tensor");
  TRITONSERVER_Error *error = ov_error(runtime, runtime->api.tensor_get_byte_size(tensor, &size),
                                       "reading a tensor's size");
  runtime->api.tensor_free(tensor);
  runtime->element_shift = size == sizeof(float) ? 0 : 1;
  return error;
}

TRITONSERVER_Error *ov_runtime_open(framework_library *library)
{
  ov_runtime *runtime = calloc(1, sizeof(*runtime));
  library->state = runtime;
  if (runtime == NULL)
    return backend_error_no_memory("OpenVINO");
  runtime->path = library->path;
  BACKEND_RETURN_IF_ERROR(load_functions(runtime));
  BACKEND_RETURN_IF_ERROR(read_version(runtime));
  BACKEND_RETURN_IF_ERROR(find_shift(runtime));
  library->version = runtime->version;
  return NULL;
}

void ov_runtime_close(framework_library *library)
{
  free(library->state);
}

// ---- errors ----

// Lines that only name a place in OpenVINO's source.
static bool is_place(const char *line)
{
  return strncmp(line, "Exception from ", 15) == 0 || strncmp(line, "Check '", 7) == 0;
}

static void add_lines(buffer *text, const char *message, bool places)
{
  for (const char *at = message; *at != '\0';) {
    size_t length = strcspn(at, "\n");
    if (length > 0 && (places || !is_place(at)) && text->size < MAX_ERROR_TEXT)
      buffer_append_format(text, "%s%.*s", text->size > 0 ? " " : "",
                           (int)(length < MAX_ERROR_TEXT ? length : MAX_ERROR_TEXT), at);
    at += length + (at[length] == '\n');
  }
  while (text->size > 0 && text->data[text->size - 1] == ' ')
    text->size--;
}

static void replace(buffer *text, const char *from, const char *to)
{
  buffer replaced = BUFFER_EMPTY;
  const char *at = text->data;
  for (const char *found; (found = strstr(at, from)) != NULL; at = found + strlen(from))
    buffer_append_format(&replaced, "%.*s%s", (int)(found - at), at, to);
  buffer_append_format(&replaced, "%s%c", at, '\0');
  buffer_fini(text);
  *text = replaced;
}

// OpenVINO keeps one message for the whole process: if two threads fail at the same time, a thread
// may get the other's text.
TRITONSERVER_Error *ov_file_error(const ov_runtime *runtime, int status, const char *doing,
                                  const char *from, const char *to)
{
  if (status == 0)
    return NULL;
  const char *message = runtime->api.get_last_err_msg();
  buffer text = BUFFER_EMPTY;
  add_lines(&text, message != NULL ? message : "", false);
  if (text.size == 0)
    add_lines(&text, message != NULL ? message : "", true);
  buffer_append_char(&text, '\0');
  if (from != NULL && !text.failed)
    replace(&text, from, to);
  TRITONSERVER_Error *error =
      text.failed ? backend_error_no_memory("an error")
                  : backend_error_internal("openvino error in %s : %s", doing,
                                           text.data[0] != '\0' ? text.data : "no reason given");
  buffer_fini(&text);
  if (message != NULL)
    runtime->api.free(message);
  return error;
}

// ---- types ----

static const struct {
  ov_element element;
  TRITONSERVER_DataType datatype;
} element_types[] = {
    {OV_F32, TRITONSERVER_TYPE_FP32},     {OV_F16, TRITONSERVER_TYPE_FP16},
    {OV_I64, TRITONSERVER_TYPE_INT64},    {OV_I32, TRITONSERVER_TYPE_INT32},
    {OV_U8, TRITONSERVER_TYPE_UINT8},     {OV_I8, TRITONSERVER_TYPE_INT8},
    {OV_BOOLEAN, TRITONSERVER_TYPE_BOOL}, {OV_BF16, TRITONSERVER_TYPE_BF16},
    {OV_F64, TRITONSERVER_TYPE_FP64},     {OV_I16, TRITONSERVER_TYPE_INT16},
    {OV_U16, TRITONSERVER_TYPE_UINT16},   {OV_U32, TRITONSERVER_TYPE_UINT32},
    {OV_U64, TRITONSERVER_TYPE_UINT64},
};
#define ELEMENT_TYPE_COUNT (sizeof(element_types) / sizeof(element_types[0]))

int ov_element_of(const ov_runtime *runtime, TRITONSERVER_DataType datatype)
{
  for (size_t i = 0; i < ELEMENT_TYPE_COUNT; i++)
    if (element_types[i].datatype == datatype)
      return (int)element_types[i].element + runtime->element_shift;
  return -1;
}

TRITONSERVER_DataType ov_datatype_of(const ov_runtime *runtime, int element)
{
  for (size_t i = 0; i < ELEMENT_TYPE_COUNT; i++)
    if ((int)element_types[i].element + runtime->element_shift == element)
      return element_types[i].datatype;
  return TRITONSERVER_TYPE_INVALID;
}

// ---- lists ----

bool ov_has_word(const char *list, size_t size, const char *word)
{
  const size_t length = strlen(word);
  for (const char *at = list; at < list + size; at++) {
    const size_t item = strcspn(at, " ,\"");
    if (item == length && strncmp(at, word, length) == 0)
      return true;
    at += item;
  }
  return false;
}
