// SPDX-License-Identifier: Apache-2.0
// Each copy is stored with the original data, which the release restores.
#include "request/device_inputs.h"

#include "base/blocks.h"
#include "base/checked.h"
#include "gpu/copy.h"

#include <stdio.h>
#include <stdlib.h>

static bool is_on_device(const input_data *data)
{
  for (uint32_t i = 0; i < data->segment_count; i++)
    if (data->segments[i].memory_type == TRITONSERVER_MEMORY_GPU)
      return true;
  return false;
}

static error *copy(const request_input *input, const input_data *from, char *to)
{
  char what[128];
  error *e = NULL;
  snprintf(what, sizeof(what), "input '%.100s'", input->name.data);
  for (uint32_t i = 0; e == NULL && i < from->segment_count; i++) {
    const input_segment *s = &from->segments[i];
    const gpu_place place = {(gpu_memory_kind)s->memory_type, (int)s->memory_type_id};
    e = gpu_copy_now(to, (gpu_place){GPU_MEMORY_HOST, 0}, s->base, place, s->size, what);
    to += s->size;
  }
  return e;
}

static error *fetch(request *r, const request_input *input, input_data *data)
{
  fetched_input *f = calloc(1, sizeof(*f));
  char *memory = f == NULL ? NULL : block_allocate(data->byte_size);
  if (memory == NULL) {
    free(f);
    return error_no_memory();
  }
  f->segment = (input_segment){.base = memory, .size = data->byte_size};
  f->data = data;
  f->given = *data;
  f->next = r->fetched;
  r->fetched = f;
  RETURN_IF_ERROR(copy(input, data, memory));
  *data = (input_data){&f->segment, 1, f->segment.size};
  return NULL;
}

error *device_inputs_fetch(request *r, const char *policy)
{
  for (uint32_t i = 0; i < r->input_count; i++) {
    request_input *input = &r->inputs[i];
    if (input->signature == NULL)
      continue; // an input of the server's
    bool is_text = input->datatype == TRITONSERVER_TYPE_BYTES;
    input_data *data = (input_data *)request_input_data(input, policy);
    if ((!is_text && input->signature->padded == NULL) || !is_on_device(data))
      continue;
    RETURN_IF_ERROR(fetch(r, input, data));
    if (is_text)
      RETURN_IF_ERROR(request_check_texts(r, input, data));
  }
  return NULL;
}
