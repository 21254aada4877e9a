// SPDX-License-Identifier: Apache-2.0
// Prints findings; see report.h.
#include "check/report.h"

#include <string.h>

static void add_text(buffer *out, const char *name, slice text)
{
  buffer_append_format(out, ",\"%s\":", name);
  buffer_append_json_string(out, text);
}

static void add_excerpt(buffer *out, const check_finding *f)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  AUTO_BUFFER buffer carets = BUFFER_EMPTY;
  buffer_append_format(out, ",\"line\":%u,\"column\":%u,\"length\":%u", f->place.line,
                       f->place.column, f->place.length);
  if (f->source != NULL)
    excerpt_print(f->source, f->place, &line, &carets);
  out->failed = out->failed || line.failed || carets.failed;
  if (carets.size == 0)
    return;
  add_text(out, "source", buffer_view(&line));
  add_text(out, "caret", buffer_view(&carets));
}

// The text without trailing blanks and line ends.
static slice trimmed(const char *text)
{
  size_t size = strlen(text);
  while (size > 0 && strchr(" \n\r", text[size - 1]) != NULL)
    size--;
  return (slice){text, size};
}

static void add_message(buffer *out, const char *text)
{
  slice all = trimmed(text);
  const char *end = memchr(all.data, '\n', all.size);
  slice first = {all.data, end != NULL ? (size_t)(end - all.data) : all.size};
  add_text(out, "message", first);
  if (end != NULL)
    add_text(out, "note", (slice){end + 1, all.size - first.size - 1});
}

void check_report_add(check_report *r, const check_finding *f)
{
  bool is_error = f->severity == DIAGNOSTIC_ERROR;
  buffer *out = &r->problems;
  buffer_append_format(out, "%s{\"severity\":\"%s\"", out->size > 0 ? ",\n" : "",
                       is_error ? "error" : "warning");
  if (f->model[0] != '\0')
    add_text(out, "model", slice_of(f->model));
  add_text(out, "file", slice_of(f->file));
  if (f->place.line > 0)
    add_excerpt(out, f);
  if (f->field != NULL && f->field[0] != '\0')
    add_text(out, "field", slice_of(f->field));
  add_message(out, f->message);
  if (f->fix != NULL)
    add_text(out, "fix", slice_of(f->fix));
  buffer_append_char(out, '}');
  r->errors += is_error;
  r->warnings += !is_error;
}

void check_report_add_missing_backend(check_report *r, const char *name)
{
  if (!string_list_contains(&r->missing_backends, name))
    string_list_add(&r->missing_backends, name);
}

void check_report_print(check_report *r, buffer *out)
{
  buffer_append_format(out, "{\"models\":%zu,\"errors\":%zu,\"warnings\":%zu,\"problems\":[",
                       r->models, r->errors, r->warnings);
  buffer_append_slice(out, buffer_view(&r->problems));
  buffer_append_text(out, "],\"missing_backends\":[");
  for (size_t i = 0; i < r->missing_backends.count; i++) {
    buffer_append_text(out, i > 0 ? "," : "");
    buffer_append_json_string(out, slice_of(r->missing_backends.items[i]));
  }
  buffer_append_text(out, "]}");
  out->failed = out->failed || r->problems.failed || r->missing_backends.failed;
}

void check_report_fini(check_report *r)
{
  buffer_fini(&r->problems);
  string_list_fini(&r->missing_backends);
}
