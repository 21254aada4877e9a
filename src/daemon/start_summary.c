// SPDX-License-Identifier: Apache-2.0
// Reads the repository index.
#include "daemon/start_summary.h"

#include "frontend/common/observe/frontend_log.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define MAX_NAMES      5   // of failed models
#define MAX_NAME_BYTES 100 // of each name

// Models of the index, in order. The values are unused.
typedef struct counted {
  json_t *ready;
  json_t *failed; // "<model>", or "<model> version <n>" where another version serves
  size_t all;     // models
} counted;

static const char *member_text(const json_t *row, const char *member)
{
  const char *text = json_string_value(json_object_get(row, member));
  return text != NULL ? text : "";
}

static bool is_ready(const json_t *row)
{
  return strcmp(member_text(row, "state"), "READY") == 0;
}

static bool has_failed(const json_t *row)
{
  return strcmp(member_text(row, "state"), "UNAVAILABLE") == 0 &&
         strcmp(member_text(row, "reason"), "unloaded") != 0;
}

static void add_failed(counted *c, const char *model, const char *version)
{
  AUTO_BUFFER buffer name = BUFFER_EMPTY;
  bool serves = json_object_get(c->ready, model) != NULL;
  buffer_append_text(&name, model);
  if (serves)
    buffer_append_format(&name, " version %s", version);
  buffer_append_char(&name, '\0');
  if (name.failed)
    return;
  c->all += !serves && json_object_get(c->failed, name.data) == NULL;
  json_object_set_new(c->failed, name.data, json_null());
}

static void count_models(counted *c, const json_t *index, const string_list *wanted)
{
  size_t i;
  json_t *row;
  json_t *known = json_object();
  json_array_foreach(index, i, row)
  {
    json_object_set_new(known, member_text(row, "name"), json_null());
    if (is_ready(row))
      json_object_set_new(c->ready, member_text(row, "name"), json_null());
  }
  c->all = json_object_size(c->ready);
  json_array_foreach(index, i, row)
  {
    if (has_failed(row))
      add_failed(c, member_text(row, "name"), member_text(row, "version"));
  }
  for (i = 0; i < wanted->count; i++) // requested, but in no repository
    if (strcmp(wanted->items[i], "*") != 0 && json_object_get(known, wanted->items[i]) == NULL)
      add_failed(c, wanted->items[i], "");
  json_decref(known);
}

static void print_failed(const counted *c, buffer *out)
{
  size_t left = json_object_size(c->failed);
  size_t named = 0;
  const char *name;
  json_t *nothing;
  if (left == 0)
    return;
  buffer_append_text(out, " (failed: ");
  json_object_foreach(c->failed, name, nothing)
  {
    if (named == MAX_NAMES)
      break;
    int shown = (int)strnlen(name, MAX_NAME_BYTES);
    while (((unsigned char)name[shown] & 0xc0) == 0x80) // cut between characters
      shown--;
    buffer_append_format(out, "%s%.*s%s", named++ > 0 ? ", " : "", shown, name,
                         name[shown] != '\0' ? "…" : "");
  }
  if (left > named)
    buffer_append_format(out, " and %zu more", left - named);
  buffer_append_char(out, ')');
}

static void print_models(const counted *c, buffer *out)
{
  size_t ready = json_object_size(c->ready);
  if (ready < c->all)
    buffer_append_format(out, "%zu of %zu model%s", ready, c->all, c->all == 1 ? "" : "s");
  else if (ready == 0)
    buffer_append_text(out, "no models");
  else
    buffer_append_format(out, "%zu model%s", ready, ready == 1 ? "" : "s");
}

static void print_port(const char *name, const char *where, bool tls, buffer *out)
{
  if (where == NULL)
    buffer_append_format(out, "%s off", name);
  else
    buffer_append_format(out, "%s at %s%s", name, where, tls ? " with TLS" : "");
}

static void print_ports(const start_summary *s, buffer *out)
{
  buffer_append_text(out, ": ");
  print_port("HTTP", s->http, s->http_tls, out);
  buffer_append_text(out, ", ");
  print_port("gRPC", s->grpc, s->grpc_tls, out);
  buffer_append_text(out, ", ");
  print_port("metrics", s->metrics, false, out);
}

bool start_summary_print(const start_summary *s, const char *index, size_t size, buffer *out)
{
  json_t *rows = json_loadb(index, size, 0, NULL);
  counted c = {json_object(), json_object(), 0};
  count_models(&c, rows, s->wanted);
  buffer_append_text(out, s->gives_up ? "Giving up with " : "Serving ");
  print_models(&c, out);
  buffer_append_format(out, " after %.2f s", s->seconds);
  print_failed(&c, out);
  if (s->gives_up)
    buffer_append_text(out, "; --exit-on-error=false serves the others");
  else
    print_ports(s, out);
  bool well = !s->gives_up && json_object_size(c.failed) == 0;
  json_decref(rows);
  json_decref(c.ready);
  json_decref(c.failed);
  return well;
}

void start_summary_log(const start_summary *s, TRITONSERVER_Server *server)
{
  TRITONSERVER_Message *message = NULL;
  const char *index = "[]";
  size_t size = 2;
  TRITONSERVER_Error *e = TRITONSERVER_ServerModelIndex(server, 0, &message);
  if (e == NULL)
    e = TRITONSERVER_MessageSerializeToJson(message, &index, &size);
  if (e != NULL) {
    frontend_log_failure(NULL, "repository index", e);
  } else {
    AUTO_BUFFER buffer line = BUFFER_EMPTY;
    bool well = start_summary_print(s, index, size, &line);
    if (well && !line.failed)
      frontend_log_info("%.*s", (int)line.size, line.data);
    else if (!line.failed)
      frontend_log_warning("%.*s", (int)line.size, line.data);
  }
  if (message != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(message));
}
