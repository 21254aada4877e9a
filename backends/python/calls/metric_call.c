// A worker's metrics by number, and the calls on them. The listener's thread.
#include "calls/calls_internal.h"

#include "backend_error.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static TRITONSERVER_Error *damaged(void)
{
  return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "a call for a custom metric cannot be read");
}

static TRITONSERVER_Error *new_entry(metric_table *self, metric_entry **entry)
{
  for (size_t i = 0; i < self->count; i++)
    if (self->entries[i].family == NULL && self->entries[i].metric == NULL) {
      *entry = &self->entries[i];
      return NULL;
    }
  if (self->count == MAX_METRICS)
    return backend_error(TRITONSERVER_ERROR_UNAVAILABLE,
                         "a model instance can have at most %d metric families and metrics",
                         MAX_METRICS);
  if (self->count == self->room) {
    size_t room = self->room == 0 ? 16 : self->room * 2;
    metric_entry *entries = reallocarray(self->entries, room, sizeof *entries);
    if (entries == NULL)
      return backend_error_no_memory("a metric");
    self->entries = entries;
    self->room = room;
  }
  *entry = &self->entries[self->count++];
  **entry = (metric_entry){0};
  return NULL;
}

static metric_entry *find(const metric_table *self, uint64_t number)
{
  return number == 0 || number > self->count ? NULL : &self->entries[number - 1];
}

static uint64_t number_of(const metric_table *self, const metric_entry *entry)
{
  return (uint64_t)(entry - self->entries) + 1;
}

static TRITONSERVER_Error *new_family(metric_table *self, wire_reader *control, uint64_t *number)
{
  char *name = calls_text(control);
  char *description = calls_text(control);
  uint32_t kind = wire_get_u32(control);
  metric_entry *entry = NULL;
  TRITONSERVER_Error *error = control->bad || kind > TRITONSERVER_METRIC_KIND_HISTOGRAM
                                  ? damaged()
                                  : new_entry(self, &entry);
  if (error == NULL)
    error = TRITONSERVER_MetricFamilyNew(&entry->family, (TRITONSERVER_MetricKind)kind, name,
                                         description);
  if (error == NULL)
    *number = number_of(self, entry);
  free(name);
  free(description);
  return error;
}

// Labels as parameters, for free_labels.
typedef struct labels {
  const TRITONSERVER_Parameter **list;
  uint64_t count;
} labels;

static void free_labels(labels *self)
{
  for (uint64_t i = 0; i < self->count; i++)
    TRITONSERVER_ParameterDelete((TRITONSERVER_Parameter *)self->list[i]);
  free(self->list);
}

static TRITONSERVER_Error *add_label(labels *self, const char *key, const json_t *value)
{
  if (!json_is_string(value))
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG, "label '%s' of a metric must be a string",
                         key);
  TRITONSERVER_Parameter *label =
      TRITONSERVER_ParameterNew(key, TRITONSERVER_PARAMETER_STRING, json_string_value(value));
  if (label == NULL)
    return backend_error_no_memory("labels");
  self->list[self->count++] = label;
  return NULL;
}

static TRITONSERVER_Error *add_labels(labels *self, const json_t *object)
{
  if (json_is_null(object))
    return NULL;
  if (!json_is_object(object))
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "Failed to create metric. Labels must be a dictionary.");
  self->list = calloc(json_object_size(object) + 1, sizeof(*self->list));
  if (self->list == NULL)
    return backend_error_no_memory("labels");
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value)
  {
    BACKEND_RETURN_IF_ERROR(add_label(self, key, value));
  }
  return NULL;
}

static TRITONSERVER_Error *read_labels(wire_reader *control, labels *made)
{
  char *text = calls_text(control);
  if (text == NULL)
    return damaged();
  json_t *object = text[0] == '\0' ? json_null() : json_loads(text, JSON_DECODE_ANY, NULL);
  TRITONSERVER_Error *error = add_labels(made, object);
  json_decref(object);
  free(text);
  return error;
}

static TRITONSERVER_Error *read_buckets(wire_reader *control, double **buckets, uint32_t *count)
{
  *count = wire_get_count(control, sizeof(double));
  *buckets = calloc((size_t)*count + 1, sizeof **buckets);
  if (*buckets == NULL)
    return backend_error_no_memory("buckets");
  for (uint32_t i = 0; i < *count; i++)
    (*buckets)[i] = wire_get_f64(control);
  return control->bad ? damaged() : NULL;
}

static TRITONSERVER_Error *make_metric(const metric_entry *family, const labels *labels,
                                       const double *buckets, uint32_t bucket_count,
                                       TRITONSERVER_Metric **metric)
{
  TRITONSERVER_MetricKind kind;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_GetMetricFamilyKind(family->family, &kind));
  if (kind != TRITONSERVER_METRIC_KIND_HISTOGRAM) {
    if (bucket_count > 0)
      return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                           "only a metric of kind HISTOGRAM has buckets");
    return TRITONSERVER_MetricNew(metric, family->family, labels->list, labels->count);
  }
  TRITONSERVER_MetricArgs *args;
  BACKEND_RETURN_IF_ERROR(TRITONSERVER_MetricArgsNew(&args));
  TRITONSERVER_Error *error = TRITONSERVER_MetricArgsSetHistogram(args, buckets, bucket_count);
  if (error == NULL)
    error =
        TRITONSERVER_MetricNewWithArgs(metric, family->family, labels->list, labels->count, args);
  backend_error_log(TRITONSERVER_MetricArgsDelete(args), "delete the arguments of a metric");
  return error;
}

static TRITONSERVER_Error *new_metric(metric_table *self, uint64_t family_number,
                                      wire_reader *control, uint64_t *number)
{
  labels labels = {0};
  double *buckets = NULL;
  uint32_t bucket_count = 0;
  metric_entry *family = find(self, family_number), *entry = NULL;
  TRITONSERVER_Error *error = read_labels(control, &labels);
  if (error == NULL)
    error = read_buckets(control, &buckets, &bucket_count);
  if (error == NULL && (family == NULL || family->family == NULL))
    error = backend_error(TRITONSERVER_ERROR_NOT_FOUND, "there is no such metric family any more");
  if (error == NULL)
    error = new_entry(self, &entry);
  if (error == NULL) // the table may have moved
    error = make_metric(find(self, family_number), &labels, buckets, bucket_count, &entry->metric);
  if (error == NULL) {
    entry->of = family_number;
    *number = number_of(self, entry);
  }
  free_labels(&labels);
  free(buckets);
  return error;
}

static TRITONSERVER_Error *delete_metric(metric_entry *entry)
{
  TRITONSERVER_Metric *metric = entry->metric;
  *entry = (metric_entry){0};
  return TRITONSERVER_MetricDelete(metric);
}

// A family goes with its metrics.
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
  double given = wire_get_f64(control);
  if (control->bad)
    return damaged();
  return kind == CALL_METRIC_ADD   ? TRITONSERVER_MetricIncrement(metric, given)
         : kind == CALL_METRIC_SET ? TRITONSERVER_MetricSet(metric, given)
                                   : TRITONSERVER_MetricObserve(metric, given);
}

static TRITONSERVER_Error *perform(metric_table *self, const channel_message *message,
                                   wire_reader *control, uint64_t *number, double *value)
{
  if (message->kind == CALL_FAMILY_NEW)
    return new_family(self, control, number);
  if (message->kind == CALL_METRIC_NEW)
    return new_metric(self, message->value, control, number);
  metric_entry *entry = find(self, message->value);
  bool family = message->kind == CALL_FAMILY_DELETE;
  if (entry == NULL || (family ? (void *)entry->family : (void *)entry->metric) == NULL)
    return backend_error(TRITONSERVER_ERROR_NOT_FOUND, "there is no such metric%s any more",
                         family ? " family" : "");
  if (family)
    return delete_family(self, message->value);
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
