// SPDX-License-Identifier: Apache-2.0
// A worker's metrics by number, and the calls on them. The listener's thread.
#include "calls/calls.h"

#include "backend_error.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static TRITONSERVER_Error *damaged(void)
{
  return backend_error_invalid("a call for a custom metric cannot be read");
}

// ---- entries by number (index + 1)

static TRITONSERVER_Error *new_number(metric_table *self, uint64_t *number)
{
  for (*number = 1; *number <= self->count; ++*number)
    if (self->entries[*number - 1].family == NULL && self->entries[*number - 1].metric == NULL)
      return NULL;
  if (self->count == MAX_METRICS)
    return backend_error_unavailable(
        "a model instance can have at most %d metric families and metrics", MAX_METRICS);
  if (self->count == self->room) {
    size_t room = self->room == 0 ? 16 : self->room * 2;
    metric_entry *entries = reallocarray(self->entries, room, sizeof(*entries));
    if (entries == NULL)
      return backend_error_no_memory("a metric");
    self->entries = entries;
    self->room = room;
  }
  self->entries[self->count++] = (metric_entry){0};
  return NULL;
}

static TRITONSERVER_Error *find(const metric_table *self, uint64_t number, bool is_family,
                                metric_entry **entry)
{
  *entry = number == 0 || number > self->count ? NULL : &self->entries[number - 1];
  if (*entry != NULL && (is_family ? (*entry)->family != NULL : (*entry)->metric != NULL))
    return NULL;
  return backend_error(TRITONSERVER_ERROR_NOT_FOUND, "there is no such metric%s any more",
                       is_family ? " family" : "");
}

// ---- making

static TRITONSERVER_Error *new_family(metric_table *self, wire_reader *control, uint64_t *number)
{
  AUTO_FREE char *name = calls_text(control);
  AUTO_FREE char *description = calls_text(control);
  const uint32_t kind = wire_get_u32(control);
  if (control->bad || kind > TRITONSERVER_METRIC_KIND_HISTOGRAM)
    return damaged();
  BACKEND_RETURN_IF_ERROR(new_number(self, number));
  return TRITONSERVER_MetricFamilyNew(&self->entries[*number - 1].family,
                                      (TRITONSERVER_MetricKind)kind, name, description);
}

// The contents of a CALL_METRIC_NEW.
typedef struct metric_content {
  const TRITONSERVER_Parameter **labels;
  uint64_t label_count;
  double *buckets;
  uint32_t bucket_count;
} metric_content;

static void metric_content_fini(metric_content *self)
{
  for (uint64_t i = 0; i < self->label_count; i++)
    TRITONSERVER_ParameterDelete((TRITONSERVER_Parameter *)self->labels[i]);
  free(self->labels);
  free(self->buckets);
}

static TRITONSERVER_Error *read_labels(metric_content *self, json_t *object)
{
  if (json_is_null(object))
    return NULL;
  if (!json_is_object(object))
    return backend_error_invalid("Failed to create metric. Labels must be a dictionary.");
  self->labels = calloc(json_object_size(object) + 1, sizeof(*self->labels));
  if (self->labels == NULL)
    return backend_error_no_memory("labels");
  const char *key;
  json_t *value;
  json_object_foreach(object, key, value)
  {
    if (!json_is_string(value))
      return backend_error_invalid("label '%s' of a metric must be a string", key);
    TRITONSERVER_Parameter *label =
        TRITONSERVER_ParameterNew(key, TRITONSERVER_PARAMETER_STRING, json_string_value(value));
    if (label == NULL)
      return backend_error_no_memory("labels");
    self->labels[self->label_count++] = label;
  }
  return NULL;
}

static TRITONSERVER_Error *read_content(metric_content *self, wire_reader *control)
{
  AUTO_FREE char *text = calls_text(control);
  if (text == NULL)
    return damaged();
  json_auto_t *labels =
      text[0] == '\0' ? json_null() : json_loadb(text, strlen(text), JSON_DECODE_ANY, NULL);
  BACKEND_RETURN_IF_ERROR(read_labels(self, labels));
  self->bucket_count = wire_get_count(control, sizeof(double));
  self->buckets = calloc((size_t)self->bucket_count + 1, sizeof(*self->buckets));
  if (self->buckets == NULL)
    return backend_error_no_memory("buckets");
  for (uint32_t i = 0; i < self->bucket_count; i++)
    self->buckets[i] = wire_get_f64(control);
  return control->bad ? damaged() : NULL;
}

static TRITONSERVER_Error *make_metric(TRITONSERVER_MetricFamily *family,
                                       const metric_content *content, TRITONSERVER_Metric **metric)
{
  TRITONSERVER_MetricKind kind;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_GetMetricFamilyKind(family, &kind));
  if (kind != TRITONSERVER_METRIC_KIND_HISTOGRAM) {
    if (content->bucket_count > 0)
      return backend_error_invalid("only a metric of kind HISTOGRAM has buckets");
    return TRITONSERVER_MetricNew(metric, family, content->labels, content->label_count);
  }
  TRITONSERVER_MetricArgs *args;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_MetricArgsNew(&args));
  TRITONSERVER_Error *error =
      TRITONSERVER_MetricArgsSetHistogram(args, content->buckets, content->bucket_count);
  if (error == NULL)
    error =
        TRITONSERVER_MetricNewWithArgs(metric, family, content->labels, content->label_count, args);
  backend_error_log(TRITONSERVER_MetricArgsDelete(args), "delete the arguments of a metric");
  return error;
}

static TRITONSERVER_Error *add_metric(metric_table *self, uint64_t family,
                                      const metric_content *content, uint64_t *number)
{
  metric_entry *entry;
  BACKEND_RETURN_IF_ERROR(find(self, family, true, &entry));
  BACKEND_RETURN_IF_ERROR(new_number(self, number)); // the table may move
  BACKEND_RETURN_IF_ERROR(
      make_metric(self->entries[family - 1].family, content, &self->entries[*number - 1].metric));
  self->entries[*number - 1].of = family;
  return NULL;
}

// ---- using

static TRITONSERVER_Error *delete_metric(metric_entry *entry)
{
  TRITONSERVER_Metric *metric = entry->metric;
  *entry = (metric_entry){0};
  return TRITONSERVER_MetricDelete(metric);
}

// Deletes a family with its metrics.
static TRITONSERVER_Error *delete_family(metric_table *self, uint64_t number)
{
  for (size_t i = 0; i < self->count; i++)
    if (self->entries[i].metric != NULL && self->entries[i].of == number)
      backend_error_log(delete_metric(&self->entries[i]), "delete a metric");
  TRITONSERVER_MetricFamily *family = self->entries[number - 1].family;
  self->entries[number - 1] = (metric_entry){0};
  return TRITONSERVER_MetricFamilyDelete(family);
}

static TRITONSERVER_Error *change(TRITONSERVER_Metric *metric, uint32_t kind, wire_reader *control)
{
  const double given = wire_get_f64(control);
  if (control->bad)
    return damaged();
  return kind == CALL_METRIC_ADD   ? TRITONSERVER_MetricIncrement(metric, given)
         : kind == CALL_METRIC_SET ? TRITONSERVER_MetricSet(metric, given)
                                   : TRITONSERVER_MetricObserve(metric, given);
}

static TRITONSERVER_Error *perform(metric_table *self, const channel_message *message,
                                   wire_reader *control, uint64_t *number, double *value)
{
  metric_entry *entry;
  metric_content content = {0};
  TRITONSERVER_Error *error;
  switch (message->kind) {
  case CALL_FAMILY_NEW:
    return new_family(self, control, number);
  case CALL_METRIC_NEW:
    error = read_content(&content, control);
    if (error == NULL)
      error = add_metric(self, message->value, &content, number);
    metric_content_fini(&content);
    return error;
  case CALL_FAMILY_DELETE:
    BACKEND_RETURN_IF_ERROR(find(self, message->value, true, &entry));
    return delete_family(self, message->value);
  }
  BACKEND_RETURN_IF_ERROR(find(self, message->value, false, &entry));
  if (message->kind == CALL_METRIC_DELETE)
    return delete_metric(entry);
  return message->kind == CALL_METRIC_VALUE ? TRITONSERVER_MetricValue(entry->metric, value)
                                            : change(entry->metric, message->kind, control);
}

static void write_value(wire_writer *writer, const void *value)
{
  wire_put_f64(writer, *(const double *)value);
}

void metric_call(calls *self, const channel_message *message, wire_reader *control)
{
  uint64_t number = 0;
  double value = 0;
  TRITONSERVER_Error *error = perform(&self->metrics, message, control, &number, &value);
  if (error != NULL)
    calls_reply_error(self, message, error);
  else if (message->kind == CALL_METRIC_VALUE)
    calls_reply_part(self, message, write_value, &value);
  else
    calls_reply(self, message, number);
}

void metric_table_fini(metric_table *self)
{
  for (uint64_t number = 1; number <= self->count; number++)
    if (self->entries[number - 1].family != NULL)
      backend_error_log(delete_family(self, number), "delete a metric family");
  free(self->entries);
  *self = (metric_table){0};
}
