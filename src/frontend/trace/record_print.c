// The entries of Triton's JSON file for one record. The exporter's thread; tests.
#include "base/buffer.h"
#include "frontend/trace/record.h"

#include <inttypes.h>

static void begin_entry(buffer *out, const trace_part *part)
{
  buffer_append_format(out, "{\"id\":%" PRIu64 ",", part->id);
}

static void print_identity(const trace_part *part, buffer *out)
{
  begin_entry(out, part);
  buffer_append_text(out, "\"model_name\":");
  buffer_append_json_string(out, slice_of(part->model_name));
  buffer_append_format(out, ",\"model_version\":%" PRId64, part->model_version);
  if (part->request_id[0] != '\0') {
    buffer_append_text(out, ",\"request_id\":");
    buffer_append_json_string(out, slice_of(part->request_id));
  }
  if (part->parent_id != 0)
    buffer_append_format(out, ",\"parent_id\":%" PRIu64, part->parent_id);
  buffer_append_char(out, '}');
}

static void print_moment(const trace_part *part, const trace_event *event, buffer *out)
{
  begin_entry(out, part);
  buffer_append_text(out, "\"timestamps\":[{\"name\":");
  buffer_append_json_string(out, slice_of(event->name));
  buffer_append_format(out, ",\"ns\":%" PRIu64 "}]}", event->moment_ns);
}

static void print_tensor(const trace_part *part, const trace_event *event, buffer *out)
{
  const trace_tensor *tensor = event->tensor;
  begin_entry(out, part);
  buffer_append_format(out, "\"activity\":\"%s\",\"tensor\":{\"name\":", event->name);
  buffer_append_json_string(out, tensor->name);
  buffer_append_text(out, ",\"data\":");
  buffer_append_json_string(out, tensor->data);
  buffer_append_text(out, ",\"shape\":");
  buffer_append_json_string(out, tensor->shape);
  buffer_append_format(out, ",\"dtype\":\"%s\"}}", tensor->datatype);
}

void record_print(const trace_record *r, buffer *out)
{
  const char *separator = "";
  for (const trace_part *part = r->first; part != NULL; part = part->next) {
    bool named = part->model_name == NULL;
    for (const trace_event *event = part->first; event != NULL; event = event->next) {
      buffer_append_text(out, separator);
      if (!named && event->activity != MOMENT_OF_FRONT_END) {
        print_identity(part, out); // as Triton does: before what the core said first
        buffer_append_char(out, ',');
        named = true;
      }
      if (event->tensor != NULL)
        print_tensor(part, event, out);
      else
        print_moment(part, event, out);
      separator = ",";
    }
  }
}
