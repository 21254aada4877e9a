// The entries of Triton's JSON file for one record. The exporter's thread; tests.
#include "base/buffer.h"
#include "frontend/trace/record.h"

#include <inttypes.h>

static void print_text(buffer *out, const char *key, slice text)
{
  buffer_append_format(out, "\"%s\":", key);
  buffer_append_json_string(out, text);
}

static void print_identity(const trace_part *part, buffer *out)
{
  print_text(out, "model_name", slice_of(part->model_name));
  buffer_append_format(out, ",\"model_version\":%" PRId64, part->model_version);
  if (part->request_id[0] != '\0') {
    buffer_append_char(out, ',');
    print_text(out, "request_id", slice_of(part->request_id));
  }
  if (part->parent_id != 0)
    buffer_append_format(out, ",\"parent_id\":%" PRIu64, part->parent_id);
  buffer_append_char(out, '}');
}

static void print_event(const trace_event *event, buffer *out)
{
  const trace_tensor *tensor = event->tensor;
  if (tensor == NULL) {
    buffer_append_text(out, "\"timestamps\":[{");
    print_text(out, "name", slice_of(event->name));
    buffer_append_format(out, ",\"ns\":%" PRIu64 "}]}", event->moment_ns);
    return;
  }
  buffer_append_format(out, "\"activity\":\"%s\",\"tensor\":{", event->name);
  print_text(out, "name", tensor->name);
  buffer_append_char(out, ',');
  print_text(out, "data", tensor->data);
  buffer_append_char(out, ',');
  print_text(out, "shape", tensor->shape);
  buffer_append_format(out, ",\"dtype\":\"%s\"}}", tensor->datatype);
}

static void begin_entry(const trace_part *part, buffer *out)
{
  buffer_append_format(out, "%s{\"id\":%" PRIu64 ",", out->size == 0 ? "" : ",", part->id);
}

void record_print(const trace_record *r, buffer *out)
{
  for (const trace_part *part = r->first; part != NULL; part = part->next) {
    bool named = part->model_name == NULL;
    for (const trace_event *event = part->first; event != NULL; event = event->next) {
      begin_entry(part, out);
      if (!named && event->activity != MOMENT_OF_FRONT_END) {
        print_identity(part, out); // as Triton does: before what the core said first
        begin_entry(part, out);
        named = true;
      }
      print_event(event, out);
    }
  }
}
