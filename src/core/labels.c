// SPDX-License-Identifier: Apache-2.0
// One file for each output that names one.
#include "core/labels.h"

#include "base/cleanup.h"

#include <string.h>

#define FILE_MAX_BYTES (64u << 20)

static size_t count_lines(slice text)
{
  size_t count = 0;
  for (const char *at = text.data, *end = text.data + text.size; at < end; count++) {
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    at = newline == NULL ? end : newline + 1;
  }
  return count;
}

// Cuts the text, which a NUL follows, into lines, in place.
static error *cut(char *text, size_t size, arena *memory, tensor_signature *t)
{
  size_t count = count_lines((slice){text, size});
  const char **labels = arena_allocate_array(memory, count, sizeof(*labels));
  if (labels == NULL)
    return error_no_memory();
  char *at = text;
  for (size_t i = 0; i < count; i++) {
    labels[i] = at;
    char *newline = memchr(at, '\n', (size_t)(text + size - at));
    if (newline == NULL)
      break;
    *newline = '\0';
    at = newline + 1;
  }
  t->labels = labels;
  t->label_count = count;
  return NULL;
}

static error *read_file(const file_root *dir, const char *name, arena *memory, tensor_signature *t)
{
  AUTO_BUFFER buffer content = BUFFER_EMPTY;
  RETURN_IF_ERROR(files_read(dir, name, FILE_MAX_BYTES, &content));
  char *text = arena_copy_text(memory, buffer_view(&content));
  return text == NULL ? error_no_memory() : cut(text, content.size, memory, t);
}

bool labels_are_named(const Inference__ModelConfig *config)
{
  for (size_t i = 0; i < config->n_output; i++)
    if (config->output[i]->label_filename[0] != '\0')
      return true;
  return false;
}

error *labels_read(const Inference__ModelConfig *config, const file_root *dir,
                   model_signature *signature)
{
  for (size_t i = 0; i < config->n_output; i++) {
    const Inference__ModelOutput *output = config->output[i];
    if (output->label_filename[0] == '\0')
      continue;
    error *e = read_file(dir, output->label_filename, &signature->memory, &signature->outputs[i]);
    if (e != NULL)
      return error_wrap(e, "failed to read the labels of output '%s'", output->name);
  }
  return NULL;
}
