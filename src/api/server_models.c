// SPDX-License-Identifier: Apache-2.0
// Metadata, configuration, statistics and index of a server and its models as JSON. The texts are
// printed here, at the seam. Any thread.
#include "api/convert.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "core/model_instances.h"
#include "core/model_memory.h"
#include "core/routing.h"
#include "core/server_state.h"
#include "core/server_status.h"
#include "nereid/nereid.h"
#include "request/message.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static TRITONSERVER_Error *finish(buffer *text, error *e, TRITONSERVER_Message **m)
{
  if (e == NULL)
    e = message_new_from_buffer(text, m);
  buffer_fini(text);
  return error_to_abi(e);
}

// "name":"value" with a comma before it unless it opens an object or list.
static void append_key(buffer *out, const char *key)
{
  char last = out->size > 0 ? out->data[out->size - 1] : '{';
  if (last != '{' && last != '[')
    buffer_append_char(out, ',');
  buffer_append_format(out, "\"%s\":", key);
}

static void append_string(buffer *out, const char *key, const char *value)
{
  append_key(out, key);
  buffer_append_json_string(out, slice_of(value));
}

static void append_number(buffer *out, const char *key, uint64_t value)
{
  append_key(out, key);
  buffer_append_format(out, "%" PRIu64, value);
}

static void append_version(buffer *out, int64_t version)
{
  append_key(out, "version");
  buffer_append_format(out, "\"%" PRId64 "\"", version);
}

static void next_element(buffer *out)
{
  if (out->size > 0 && out->data[out->size - 1] != '[')
    buffer_append_char(out, ',');
}

// ---- metadata ----

TRITONSERVER_Error *TRITONSERVER_ServerMetadata(TRITONSERVER_Server *s, TRITONSERVER_Message **m)
{
  buffer out = BUFFER_EMPTY;
  buffer_append_char(&out, '{');
  append_string(&out, "name", s->options.server_id);
  append_string(&out, "version", server_version());
  append_key(&out, "extensions");
  buffer_append_char(&out, '[');
  for (const char *const *extension = server_extensions(); *extension != NULL; extension++) {
    next_element(&out);
    buffer_append_json_string(&out, slice_of(*extension));
  }
  buffer_append_text(&out, "]}");
  return finish(&out, NULL, m);
}

static void append_tensor(buffer *out, const char *name, int datatype_value, const int64_t *dims,
                          size_t dim_count, bool batched)
{
  const datatype *type = datatype_by_value(datatype_value);
  next_element(out);
  buffer_append_char(out, '{');
  append_string(out, "name", name);
  append_string(out, "datatype", type != NULL ? type->wire_name : "INVALID");
  append_key(out, "shape");
  buffer_append_text(out, batched ? "[-1" : "[");
  for (size_t i = 0; i < dim_count; i++) {
    next_element(out);
    buffer_append_format(out, "%" PRId64, dims[i]);
  }
  buffer_append_text(out, "]}");
}

static error *append_all_ready(buffer *out, server *s, const char *name)
{
  size_t count;
  int64_t *versions AUTO_FREE = NULL;
  RETURN_IF_ERROR(server_ready_versions(s, name, &versions, &count));
  for (size_t i = 0; i < count; i++) {
    next_element(out);
    buffer_append_format(out, "\"%" PRId64 "\"", versions[i]);
  }
  return NULL;
}

// Only the version asked for, if there is one.
static error *append_versions(buffer *out, server *s, const char *name, int64_t asked)
{
  error *e = NULL;
  append_key(out, "versions");
  buffer_append_char(out, '[');
  if (asked == -1)
    e = append_all_ready(out, s, name);
  else
    buffer_append_format(out, "\"%" PRId64 "\"", asked);
  buffer_append_char(out, ']');
  return e;
}

TRITONSERVER_Error *TRITONSERVER_ServerModelMetadata(TRITONSERVER_Server *s, const char *model_name,
                                                     int64_t model_version,
                                                     TRITONSERVER_Message **message)
{
  model *m;
  error *e = server_find_model(s, model_name, model_version, &m);
  if (e != NULL)
    return error_to_abi(e);
  const Inference__ModelConfig *config = m->config;
  bool batched = config->max_batch_size > 0;
  buffer out = BUFFER_EMPTY;
  buffer_append_char(&out, '{');
  append_string(&out, "name", model_name);
  e = append_versions(&out, s, model_name, model_version == -1 ? -1 : m->target.version);
  append_string(&out, "platform", config->platform[0] != '\0' ? config->platform : config->backend);
  append_key(&out, "inputs");
  buffer_append_char(&out, '[');
  for (size_t i = 0; i < config->n_input; i++)
    append_tensor(&out, config->input[i]->name, (int)config->input[i]->data_type,
                  config->input[i]->dims, config->input[i]->n_dims, batched);
  buffer_append_char(&out, ']');
  append_key(&out, "outputs");
  buffer_append_char(&out, '[');
  for (size_t i = 0; i < config->n_output; i++)
    append_tensor(&out, config->output[i]->name, (int)config->output[i]->data_type,
                  config->output[i]->dims, config->output[i]->n_dims, batched);
  buffer_append_text(&out, "]}");
  model_unref(m);
  return finish(&out, e, message);
}

TRITONSERVER_Error *TRITONSERVER_ServerModelConfig(TRITONSERVER_Server *s, const char *model_name,
                                                   int64_t model_version, uint32_t config_version,
                                                   TRITONSERVER_Message **message)
{
  model *m;
  if (config_version != 1)
    return error_to_abi(error_new(ERROR_INVALID_ARG,
                                  "model configuration version %" PRIu32
                                  " not supported, supported "
                                  "versions are: 1",
                                  config_version));
  error *e = server_find_model(s, model_name, model_version, &m);
  if (e != NULL)
    return error_to_abi(e);
  buffer out = BUFFER_EMPTY;
  e = model_print_config(m, &out);
  model_unref(m);
  return finish(&out, e, message);
}

// ---- statistics ----

static uint64_t load(const _Atomic uint64_t *counter)
{
  return atomic_load_explicit(counter, memory_order_relaxed);
}

static void append_duration(buffer *out, const char *key, uint64_t count, uint64_t ns)
{
  append_key(out, key);
  buffer_append_format(out, "{\"count\":%" PRIu64 ",\"ns\":%" PRIu64 "}", count, ns);
}

static void append_counter(buffer *out, const char *key, const duration_counter *c)
{
  append_duration(out, key, load(&c->count), load(&c->ns));
}

static void append_batches(buffer *out, const statistics *sum)
{
  append_key(out, "batch_stats");
  buffer_append_char(out, '[');
  for (size_t size = 0; size < sum->batch_row_count; size++) {
    const batch_counters *row = &sum->batch_rows[size];
    uint64_t count = load(&row->count);
    if (count == 0)
      continue;
    next_element(out);
    buffer_append_char(out, '{');
    append_number(out, "batch_size", size);
    append_duration(out, "compute_input", count, load(&row->compute_input_ns));
    append_duration(out, "compute_infer", count, load(&row->compute_infer_ns));
    append_duration(out, "compute_output", count, load(&row->compute_output_ns));
    buffer_append_char(out, '}');
  }
  buffer_append_char(out, ']');
}

static void append_responses(buffer *out, model *m)
{
  size_t count;
  response_counters *rows = response_statistics_copy(&m->target.response_statistics, &count);
  append_key(out, "response_stats");
  buffer_append_char(out, '{');
  for (size_t i = 0; i < count; i++) {
    const response_counters *row = &rows[i];
    char index[24];
    snprintf(index, sizeof(index), "%zu", i);
    append_key(out, index);
    buffer_append_char(out, '{');
    append_duration(out, "compute_infer", row->compute_infer.count, row->compute_infer.ns);
    append_duration(out, "compute_output", row->compute_output.count, row->compute_output.ns);
    append_duration(out, "success", row->success.count, row->success.ns);
    append_duration(out, "fail", row->fail.count, row->fail.ns);
    append_duration(out, "empty_response", row->empty_response.count, row->empty_response.ns);
    append_duration(out, "cancel", row->cancel.count, row->cancel.ns);
    buffer_append_char(out, '}');
  }
  buffer_append_char(out, '}');
  free(rows);
}

static error *append_memory(buffer *out, model *m)
{
  memory_places places;
  model_memory_update(m);
  error *e = model_memory_places(m, &places);
  append_key(out, "memory_usage");
  buffer_append_char(out, '[');
  for (size_t i = 0; e == NULL && i < places.count; i++) {
    const memory_place *place = &places.items[i];
    next_element(out);
    buffer_append_char(out, '{');
    append_string(out, "type", TRITONSERVER_MemoryTypeString(place->type));
    append_key(out, "id");
    buffer_append_format(out, "%" PRId64, place->id);
    append_number(out, "byte_size", place->bytes);
    buffer_append_char(out, '}');
  }
  buffer_append_char(out, ']');
  memory_places_fini(&places);
  return e;
}

static error *append_statistics(buffer *out, model *m, const statistics *sum)
{
  next_element(out);
  buffer_append_char(out, '{');
  append_string(out, "name", m->name);
  append_version(out, m->target.version);
  append_number(out, "last_inference", load(&sum->last_inference_ms));
  append_number(out, "inference_count", load(&sum->inference_count));
  append_number(out, "execution_count", load(&sum->execution_count));
  append_key(out, "inference_stats");
  buffer_append_char(out, '{');
  append_counter(out, "success", &sum->success);
  append_counter(out, "fail", &sum->failure);
  append_counter(out, "queue", &sum->queue);
  append_counter(out, "compute_input", &sum->compute_input);
  append_counter(out, "compute_infer", &sum->compute_infer);
  append_counter(out, "compute_output", &sum->compute_output);
  append_counter(out, "cache_hit", &sum->cache_hit);
  append_counter(out, "cache_miss", &sum->cache_miss);
  buffer_append_char(out, '}');
  append_responses(out, m);
  append_batches(out, sum);
  error *e = append_memory(out, m);
  buffer_append_char(out, '}');
  return e;
}

static error *append_model(buffer *out, model *m)
{
  statistics sum;
  RETURN_IF_ERROR(statistics_init(&sum, m->shared.max_batch_size));
  model_statistics(m, &sum);
  error *e = append_statistics(out, m, &sum);
  statistics_fini(&sum);
  return e;
}

typedef struct statistics_walk {
  const char *name; // "": all models
  int64_t version;  // -1: all versions
  buffer out;
  bool any_version;
  bool found;
  error *failure;
} statistics_walk;

static void visit_for_statistics(void *context, model *m)
{
  statistics_walk *walk = context;
  if (walk->failure != NULL || (walk->name[0] != '\0' && strcmp(walk->name, m->name) != 0))
    return;
  walk->any_version = true;
  if (walk->version != -1 && walk->version != m->target.version)
    return;
  walk->found = true;
  walk->failure = append_model(&walk->out, m);
}

TRITONSERVER_Error *TRITONSERVER_ServerModelStatistics(TRITONSERVER_Server *s,
                                                       const char *model_name,
                                                       int64_t model_version,
                                                       TRITONSERVER_Message **message)
{
  if (model_version < -1) { // the number of a label
    model *m;
    error *unknown = server_find_model(s, model_name, model_version, &m);
    if (unknown != NULL)
      return error_to_abi(unknown);
    model_version = m->target.version;
    model_unref(m);
  }
  statistics_walk walk = {.name = model_name, .version = model_version, .out = BUFFER_EMPTY};
  buffer_append_text(&walk.out, "{\"model_stats\":[");
  error *e = server_visit_ready(s, visit_for_statistics, &walk);
  if (e == NULL)
    e = walk.failure;
  else
    error_free(walk.failure);
  if (e == NULL && model_name[0] != '\0' && !walk.any_version)
    e = error_new(ERROR_INVALID_ARG, "requested model '%s' is not available", model_name);
  else if (e == NULL && model_name[0] != '\0' && !walk.found)
    e = error_new(ERROR_INVALID_ARG, "requested model version is not available for model '%s'",
                  model_name);
  buffer_append_text(&walk.out, "]}");
  return finish(&walk.out, e, message);
}

// ---- index ----

static void visit_for_index(void *context, const index_row *row)
{
  buffer *out = context;
  next_element(out);
  buffer_append_char(out, '{');
  append_string(out, "name", row->name);
  if (row->version != -1)
    append_version(out, row->version);
  if (row->state != VERSION_UNKNOWN)
    append_string(out, "state", version_state_names[row->state]);
  if (row->reason[0] != '\0')
    append_string(out, "reason", row->reason);
  buffer_append_char(out, '}');
}

TRITONSERVER_Error *TRITONSERVER_ServerModelIndex(TRITONSERVER_Server *s, uint32_t flags,
                                                  TRITONSERVER_Message **message)
{
  buffer out = BUFFER_EMPTY;
  buffer_append_char(&out, '[');
  error *e = server_index(s, (flags & TRITONSERVER_INDEX_FLAG_READY) != 0, visit_for_index, &out);
  buffer_append_char(&out, ']');
  return finish(&out, e, message);
}

// ---- versions ----

TRITONSERVER_Error *NEREID_ServerVersionOfLabel(TRITONSERVER_Server *s, const char *model_name,
                                                const char *label, int64_t *model_version)
{
  model_entry *entry = NULL;
  AUTO_ERROR error *unknown =
      model_table_find_named(&s->models, model_name, &entry); // a use of it reports the error
  return error_to_abi(
      routing_number_of_label(unknown == NULL ? entry : NULL, label, model_version));
}

TRITONSERVER_Error *NEREID_ServerModelRouting(TRITONSERVER_Server *s, const char *model_name,
                                              const char *change, size_t byte_size,
                                              TRITONSERVER_Message **message)
{
  buffer out = BUFFER_EMPTY;
  model_entry *entry;
  error *e = model_table_find_named(&s->models, model_name, &entry);
  if (e == NULL)
    e = routing_change(s, entry, (slice){change, byte_size}, &out);
  return finish(&out, e, message);
}
