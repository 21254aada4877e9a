// SPDX-License-Identifier: Apache-2.0
// Builds requests from the models' metadata.
#include "daemon/call_lines.h"

#include "base/checked.h"
#include "base/table.h"
#include "base/text.h"
#include "daemon/shell_words.h"
#include "nereid/nereid.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define MAX_INLINE     64 // elements of all inputs together that are written out
#define SERVES_STREAMS "generate_stream"

// ---- URL ----

static bool is_plain(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != '\0' && strchr("-._~", c) != NULL);
}

static void append_url_part(buffer *out, const char *text)
{
  for (; *text != '\0'; text++)
    if (is_plain(*text))
      buffer_append_char(out, *text);
    else
      buffer_append_format(out, "%%%02X", (unsigned char)*text);
}

// A server that listens at all addresses is called at localhost.
static void append_authority(buffer *out, const char *where)
{
  static const char *const everywhere[] = {"0.0.0.0:", "[::]:"};
  for (size_t i = 0; i < sizeof(everywhere) / sizeof(everywhere[0]); i++)
    if (text_starts_with(where, everywhere[i])) {
      buffer_append_format(out, "localhost:%s", where + strlen(everywhere[i]));
      return;
    }
  buffer_append_text(out, where);
}

static void append_url(buffer *out, const call_target *target, const char *model,
                       const char *operation)
{
  static const char abstract[] = "unix:@";
  static const char file[] = "unix:";
  bool is_socket = text_starts_with(target->http, file);
  if (target->certificate != NULL) {
    buffer_append_text(out, "--cacert ");
    shell_append_quoted(out, slice_of(target->certificate));
    buffer_append_char(out, ' ');
  }
  if (is_socket) {
    bool is_abstract = text_starts_with(target->http, abstract);
    const char *path = target->http + strlen(is_abstract ? abstract : file);
    buffer_append_text(out, is_abstract ? "--abstract-unix-socket " : "--unix-socket ");
    shell_append_quoted(out, slice_of(path));
    buffer_append_char(out, ' ');
  }
  if (target->certificate != NULL)
    buffer_append_text(out, "https://");
  if (is_socket)
    buffer_append_text(out, "localhost");
  else
    append_authority(out, target->http);
  buffer_append_text(out, "/v2/models/");
  append_url_part(out, model);
  buffer_append_format(out, "/%s", operation);
}

// ---- inputs ----

typedef struct input {
  const char *name;
  const char *datatype;
  const json_t *shape; // as the metadata has it: -1 becomes 1
  size_t elements;
  size_t bytes; // when binary: empty texts, each only its length
} input;

static bool read_input(const json_t *from, input *to)
{
  size_t i;
  json_t *dim;
  *to = (input){.name = json_string_value(json_object_get(from, "name")),
                .datatype = json_string_value(json_object_get(from, "datatype")),
                .shape = json_object_get(from, "shape"),
                .elements = 1};
  if (to->name == NULL || to->datatype == NULL || !json_is_array(to->shape))
    return false;
  json_array_foreach(to->shape, i, dim)
  {
    json_int_t n = json_integer_value(dim);
    if (n >= 0 && !checked_multiply_size(to->elements, (size_t)n, &to->elements))
      return false;
  }
  TRITONSERVER_DataType type = TRITONSERVER_StringToDataType(to->datatype);
  size_t size = type == TRITONSERVER_TYPE_BYTES ? 4 : TRITONSERVER_DataTypeByteSize(type);
  return size > 0 && checked_multiply_size(to->elements, size, &to->bytes);
}

static json_t *zero_of(const char *datatype)
{
  if (strcmp(datatype, "BYTES") == 0)
    return json_string("a");
  if (strcmp(datatype, "BOOL") == 0)
    return json_false();
  return json_integer(0);
}

static json_t *zeros_of(const input *in)
{
  json_t *data = json_array();
  for (size_t i = 0; i < in->elements; i++)
    json_array_append_new(data, zero_of(in->datatype));
  return data;
}

static json_t *shape_of(const input *in)
{
  size_t i;
  json_t *dim;
  json_t *shape = json_array();
  json_array_foreach(in->shape, i, dim)
  {
    json_int_t n = json_integer_value(dim);
    json_array_append_new(shape, json_integer(n < 0 ? 1 : n));
  }
  return shape;
}

// The input as KServe v2 has it; NULL when memory is short.
static json_t *input_json(const input *in, bool binary)
{
  if (binary)
    return json_pack("{s:s,s:s,s:o,s:{s:I}}", "name", in->name, "datatype", in->datatype, "shape",
                     shape_of(in), "parameters", "binary_data_size", (json_int_t)in->bytes);
  return json_pack("{s:s,s:s,s:o,s:o}", "name", in->name, "datatype", in->datatype, "shape",
                   shape_of(in), "data", zeros_of(in));
}

// ---- requests ----

typedef struct call {
  bool streams; // a decoupled model: flat JSON
  size_t elements, bytes;
  json_t *body; // owned
} call;

static json_t *flat_value(const input *in)
{
  return in->elements == 1 ? zero_of(in->datatype) : zeros_of(in);
}

static bool add_input(call *c, const input *in)
{
  if (c->streams)
    return json_object_set_new(c->body, in->name, flat_value(in)) == 0;
  return json_array_append_new(json_object_get(c->body, "inputs"),
                               input_json(in, c->elements > MAX_INLINE)) == 0;
}

static bool make_body(const json_t *metadata, call *c)
{
  size_t i;
  json_t *from;
  input in;
  const json_t *inputs = json_object_get(metadata, "inputs");
  json_array_foreach(inputs, i, from)
  {
    if (!read_input(from, &in) || !checked_add_size(c->elements, in.elements, &c->elements) ||
        !checked_add_size(c->bytes, in.bytes, &c->bytes))
      return false;
  }
  c->body = c->streams ? json_object() : json_pack("{s:[]}", "inputs");
  json_array_foreach(inputs, i, from)
  {
    if (!read_input(from, &in) || !add_input(c, &in))
      return false;
  }
  return c->body != NULL;
}

static void print_call(const call *c, const call_target *target, const char *model, buffer *out)
{
  char *body = json_dumps(c->body, JSON_COMPACT);
  if (body == NULL) {
    out->failed = true;
    return;
  }
  if (!c->streams && c->elements > MAX_INLINE) {
    buffer_append_text(out, "(printf %s ");
    shell_append_quoted(out, slice_of(body));
    buffer_append_format(out,
                         "; head -c %zu /dev/zero) | curl -H 'Inference-Header-Content-Length: "
                         "%zu' --data-binary @- ",
                         c->bytes, strlen(body));
  } else {
    buffer_append_text(out, c->streams ? "curl -N -d " : "curl -d ");
    shell_append_quoted(out, slice_of(body));
    buffer_append_char(out, ' ');
  }
  append_url(out, target, model, c->streams ? SERVES_STREAMS : "infer");
  free(body);
}

static bool is_decoupled(slice config)
{
  json_t *root = json_loadb(config.data, config.size, 0, NULL);
  bool decoupled =
      json_is_true(json_object_get(json_object_get(root, "model_transaction_policy"), "decoupled"));
  json_decref(root);
  return decoupled;
}

bool call_line_print(const call_target *target, slice metadata, slice config, buffer *out)
{
  json_t *root = json_loadb(metadata.data, metadata.size, 0, NULL);
  const char *model = json_string_value(json_object_get(root, "name"));
  call c = {.streams = is_decoupled(config)};
  bool made = model != NULL && make_body(root, &c);
  if (made)
    print_call(&c, target, model, out);
  json_decref(c.body);
  json_decref(root);
  return made && !out->failed;
}

// ---- all models ----

static bool logs_json(void)
{
  NEREID_LogSettings settings;
  NEREID_LogGetSettings(&settings);
  return settings.format == NEREID_LOG_JSON;
}

// A JSON log gets the text as a log line.
static void say(FILE *to, TRITONSERVER_LogLevel level, buffer *text)
{
  buffer_append_char(text, '\0');
  if (text->failed)
    return;
  if (logs_json())
    TRITONSERVER_ErrorDelete(TRITONSERVER_LogMessage(level, __FILE_NAME__, __LINE__, text->data));
  else
    fprintf(to, "%s\n", text->data);
  fflush(to);
}

// The message's text, valid as long as the message; "" for an error, which is released.
static slice take_text(TRITONSERVER_Error *e, TRITONSERVER_Message *message)
{
  const char *text = NULL;
  size_t size = 0;
  if (e == NULL)
    e = TRITONSERVER_MessageSerializeToJson(message, &text, &size);
  TRITONSERVER_ErrorDelete(e);
  return text != NULL ? (slice){text, size} : slice_of("");
}

static bool has_no_tensors(slice metadata)
{
  json_t *root = json_loadb(metadata.data, metadata.size, 0, NULL);
  const bool none = root != NULL && json_array_size(json_object_get(root, "inputs")) == 0 &&
                    json_array_size(json_object_get(root, "outputs")) == 0;
  json_decref(root);
  return none;
}

static void say_no_tensors(const char *model)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  buffer_append_format(&line,
                       "warning: %s has neither inputs nor outputs: name them in "
                       "%s/config.pbtxt with the file at %s/1/ (or, of a Python model, in its "
                       "auto_complete_config)",
                       model, model, model);
  say(stderr, TRITONSERVER_LOG_WARN, &line);
}

static void say_call(const call_target *target, TRITONSERVER_Server *server, const char *model)
{
  TRITONSERVER_Message *metadata = NULL;
  TRITONSERVER_Message *config = NULL;
  TRITONSERVER_Error *e = TRITONSERVER_ServerModelMetadata(server, model, -1, &metadata);
  slice metadata_text = take_text(e, metadata);
  e = TRITONSERVER_ServerModelConfig(server, model, -1, 1, &config);
  slice config_text = take_text(e, config);
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  if (target->http == NULL)
    buffer_append_format(&line, "%s serves; HTTP is off", model);
  else if (!call_line_print(target, metadata_text, config_text, &line))
    buffer_append_format(&line, "%s serves; its inputs cannot be shown", model);
  say(stdout, TRITONSERVER_LOG_INFO, &line);
  if (has_no_tensors(metadata_text))
    say_no_tensors(model);
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(metadata));
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(config));
}

static void say_failure(const char *model, const char *reason)
{
  AUTO_BUFFER buffer line = BUFFER_EMPTY;
  buffer_append_text(&line, "error: ");
  table_append_visible(&line, slice_of(model));
  buffer_append_text(&line, " does not serve: ");
  table_append_visible_lines(&line, slice_of(reason));
  say(stderr, TRITONSERVER_LOG_ERROR, &line);
}

void call_lines_say(const call_target *target, TRITONSERVER_Server *server)
{
  size_t i;
  json_t *row;
  TRITONSERVER_Message *message = NULL;
  TRITONSERVER_Error *e = TRITONSERVER_ServerModelIndex(server, 0, &message);
  slice text = take_text(e, message);
  json_t *index = json_loadb(text.data, text.size, 0, NULL);
  const char *last = "";
  json_array_foreach(index, i, row)
  {
    const char *name = json_string_value(json_object_get(row, "name"));
    const char *state = json_string_value(json_object_get(row, "state"));
    const char *reason = json_string_value(json_object_get(row, "reason"));
    if (name == NULL || state == NULL)
      continue;
    if (target != NULL && strcmp(state, "READY") == 0 && strcmp(name, last) != 0)
      say_call(target, server, name);
    else if (strcmp(state, "UNAVAILABLE") == 0)
      say_failure(name, reason != NULL ? reason : "");
    last = name;
  }
  json_decref(index);
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(message));
}
