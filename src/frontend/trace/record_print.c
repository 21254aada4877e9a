// SPDX-License-Identifier: Apache-2.0
// Prints a record as entries of Triton's JSON file. The exporter's thread; tests. printf would cost
// more than everything else.
#include "base/buffer.h"
#include "base/number.h"
#include "frontend/trace/record.h"

static void print_member(buffer *out, const char *before, slice text)
{
  buffer_append_text(out, before);
  buffer_append_json_string(out, text);
}

static void print_number(buffer *out, const char *before, int64_t number)
{
  buffer_append_text(out, before);
  char *end = buffer_reserve(out, NUMBER_TEXT_BYTES);
  if (end != NULL)
    out->size += number_print_i64(end, number);
}

static void begin_entry(const trace_part *part, buffer *out)
{
  print_number(out, out->size == 0 ? "{\"id\":" : ",{\"id\":", (int64_t)part->id);
}

static void print_identity(const trace_part *part, buffer *out)
{
  print_member(out, ",\"model_name\":", slice_of(part->model_name));
  print_number(out, ",\"model_version\":", part->model_version);
  if (part->request_id[0] != '\0')
    print_member(out, ",\"request_id\":", slice_of(part->request_id));
  if (part->parent_id != 0)
    print_number(out, ",\"parent_id\":", (int64_t)part->parent_id);
  buffer_append_char(out, '}');
}

static void print_event(const trace_event *event, buffer *out)
{
  const trace_tensor *tensor = event->tensor;
  if (tensor == NULL) {
    print_member(out, ",\"timestamps\":[{\"name\":", slice_of(event->name));
    print_number(out, ",\"ns\":", (int64_t)event->moment_ns);
    buffer_append_text(out, "}]}");
    return;
  }
  print_member(out, ",\"activity\":", slice_of(event->name));
  print_member(out, ",\"tensor\":{\"name\":", tensor->name);
  print_member(out, ",\"data\":", tensor->data);
  print_member(out, ",\"shape\":", tensor->shape);
  print_member(out, ",\"dtype\":", slice_of(tensor->datatype));
  buffer_append_text(out, "}}");
}

void record_print(const trace_record *r, buffer *out)
{
  for (const trace_part *part = r->first; part != NULL; part = part->next) {
    bool named = part->model_name == NULL;
    for (const trace_event *event = part->first; event != NULL; event = event->next) {
      begin_entry(part, out);
      if (!named && event->activity != MOMENT_OF_FRONT_END) {
        print_identity(part, out); // before the core's first event, as in Triton
        begin_entry(part, out);
        named = true;
      }
      print_event(event, out);
    }
  }
}
