// SPDX-License-Identifier: Apache-2.0
// Prints families and samples. Called while a scrape is answered, on the scraper's thread.
#include "metrics/exposition.h"

#include "base/cleanup.h"
#include "base/number.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct metrics_family {
  metric_kind kind;
  char *name; // both owned
  char *help;
  buffer samples;
};

static const char *const kind_texts[] = {
    [METRIC_COUNTER] = "counter",
    [METRIC_GAUGE] = "gauge",
    [METRIC_HISTOGRAM] = "histogram",
    [METRIC_SUMMARY] = "summary",
};

static bool is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(const char *name, bool colons)
{
  if (!is_letter(name[0]) && !(colons && name[0] == ':'))
    return false;
  for (const char *c = name + 1; *c != '\0'; c++)
    if (!is_letter(*c) && !(*c >= '0' && *c <= '9') && !(colons && *c == ':'))
      return false;
  return true;
}

bool metrics_is_metric_name(const char *name)
{
  return is_name(name, true);
}

bool metrics_is_label_name(const char *name)
{
  return is_name(name, false) && strncmp(name, "__", 2) != 0;
}

static void free_family(metrics_family *family)
{
  buffer_fini(&family->samples);
  free(family->name);
  free(family->help);
  free(family);
}

void metrics_sheet_fini(metrics_sheet *sheet)
{
  const string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&sheet->families, &i)) != NULL;)
    free_family(entry->value);
  string_map_fini(&sheet->families);
}

// NULL when memory is short.
static metrics_family *make_family(metric_kind kind, const char *name, const char *help)
{
  metrics_family *family = calloc(1, sizeof(*family));
  if (family == NULL)
    return NULL;
  family->kind = kind;
  family->name = text_copy(slice_of(name));
  family->help = text_copy(slice_of(help));
  if (family->name != NULL && family->help != NULL)
    return family;
  free_family(family);
  return NULL;
}

metrics_family *metrics_sheet_family(metrics_sheet *sheet, metric_kind kind, const char *name,
                                     const char *help)
{
  metrics_family *family = string_map_get(&sheet->families, slice_of(name));
  if (family != NULL)
    return family->kind == kind ? family : NULL;
  family = make_family(kind, name, help);
  if (family != NULL && string_map_put(&sheet->families, slice_of(name), family))
    return family;
  if (family != NULL)
    free_family(family);
  sheet->failed = true;
  return NULL;
}

metrics_family *metrics_sheet_process_family(metrics_sheet *sheet, metric_kind kind,
                                             const char *name, const char *help)
{
  metrics_family *family = metrics_sheet_family(sheet, kind, name, help);
  return family != NULL && family->samples.size == 0 ? family : NULL;
}

// Appends `text` with backslash and newline escaped, and quotes where `quotes` says so.
static void append_escaped(buffer *b, const char *text, bool quotes)
{
  const char *end = text + strlen(text);
  while (text < end) {
    size_t size = text_utf8_length(text, (size_t)(end - text));
    if (size == 0) {
      buffer_append_text(b, "\xef\xbf\xbd"); // U+FFFD
      text++;
      continue;
    }
    if (*text == '\\' || (quotes && *text == '"'))
      buffer_append_char(b, '\\');
    if (*text == '\n')
      buffer_append_text(b, "\\n");
    else
      buffer_append(b, text, size);
    text += size;
  }
}

static int compare_labels(const void *a, const void *b)
{
  return strcmp(((const metric_label *)a)->name, ((const metric_label *)b)->name);
}

static void append_label(buffer *text, metric_label label)
{
  buffer_append_text(text, label.name);
  buffer_append_text(text, "=\"");
  append_escaped(text, label.value, true);
  buffer_append_char(text, '"');
}

bool metrics_render_labels(buffer *text, const metric_label *labels, size_t count)
{
  metric_label *sorted AUTO_FREE = calloc(count + 1, sizeof(*sorted));
  if (sorted == NULL)
    return false;
  if (count > 0)
    memcpy(sorted, labels, count * sizeof(*sorted));
  qsort(sorted, count, sizeof(*sorted), compare_labels);
  for (size_t i = 0; i < count; i++) {
    if (i > 0)
      buffer_append_char(text, ',');
    append_label(text, sorted[i]);
  }
  return !text->failed;
}

// How many bytes of the rendered labels belong to names before `name`, including the comma after
// them. Quotes and commas occur only in quoted values, where quotes are escaped.
static size_t find_label_position(slice labels, const char *name)
{
  size_t size = strlen(name), at = 0;
  while (at < labels.size) {
    const char *label = labels.data + at;
    const char *equals = memchr(label, '=', labels.size - at);
    assert(equals != NULL);
    size_t label_size = (size_t)(equals - label);
    int order = memcmp(label, name, label_size < size ? label_size : size);
    if (order > 0 || (order == 0 && label_size > size))
      return at;
    at += label_size + 2; // behind the opening quote
    while (labels.data[at] != '"')
      at += labels.data[at] == '\\' ? 2 : 1;
    at++;                   // behind the closing one
    at += at < labels.size; // and the comma
  }
  return at;
}

void metrics_insert_label(buffer *text, slice labels, metric_label more)
{
  size_t position = find_label_position(labels, more.name);
  bool last = position == labels.size;
  buffer_append(text, labels.data, position);
  if (last && position > 0)
    buffer_append_char(text, ',');
  append_label(text, more);
  if (!last)
    buffer_append_char(text, ',');
  buffer_append(text, labels.data + position, labels.size - position);
}

// The shortest decimal text that reads back as the same number.
static void append_number(buffer *b, double value)
{
  char text[NUMBER_TEXT_BYTES];
  if (isnan(value))
    buffer_append_text(b, "NaN");
  else if (isinf(value))
    buffer_append_text(b, value > 0 ? "+Inf" : "-Inf");
  else if (fabs(value) < 1e15 && trunc(value) == value)
    buffer_append(b, text, number_print_i64(text, (int64_t)value));
  else
    buffer_append(b, text, number_print_f64(text, value));
}

// Appends `name_suffix{labels,bound_name="bound"} `; `bound_name` NULL: without this label.
static void append_head(metrics_family *family, const char *suffix, slice labels,
                        const char *bound_name, double bound)
{
  buffer *b = &family->samples;
  buffer_append_text(b, family->name);
  buffer_append_text(b, suffix);
  if (labels.size > 0 || bound_name != NULL) {
    buffer_append_char(b, '{');
    buffer_append_slice(b, labels);
    if (bound_name != NULL) {
      if (labels.size > 0)
        buffer_append_char(b, ',');
      buffer_append_text(b, bound_name);
      buffer_append_text(b, "=\"");
      append_number(b, bound);
      buffer_append_char(b, '"');
    }
    buffer_append_char(b, '}');
  }
  buffer_append_char(b, ' ');
}

static void append_integer(buffer *b, uint64_t value)
{
  char text[NUMBER_TEXT_BYTES];
  buffer_append(b, text, number_print_u64(text, value));
  buffer_append_char(b, '\n');
}

// Appends `name_suffix{labels} value`.
static void append_part(metrics_family *family, const char *suffix, slice labels, double value)
{
  append_head(family, suffix, labels, NULL, 0);
  append_number(&family->samples, value);
  buffer_append_char(&family->samples, '\n');
}

static void append_count(metrics_family *family, const char *suffix, slice labels, uint64_t value)
{
  append_head(family, suffix, labels, NULL, 0);
  append_integer(&family->samples, value);
}

void metrics_family_add(metrics_family *family, slice labels, double value)
{
  if (family != NULL)
    append_part(family, "", labels, value);
}

void metrics_family_add_integer(metrics_family *family, slice labels, uint64_t value)
{
  if (family != NULL)
    append_count(family, "", labels, value);
}

void metrics_family_add_with(metrics_family *family, slice labels, metric_label more,
                             uint64_t value)
{
  if (family == NULL)
    return;
  buffer *b = &family->samples;
  buffer_append_text(b, family->name);
  buffer_append_char(b, '{');
  metrics_insert_label(b, labels, more);
  buffer_append_text(b, "} ");
  append_integer(b, value);
}

void metrics_family_add_histogram(metrics_family *family, slice labels, const double *bounds,
                                  const uint64_t *counts, size_t bound_count, double sum)
{
  if (family == NULL)
    return;
  uint64_t total = 0;
  for (size_t i = 0; i <= bound_count; i++) {
    total += counts[i];
    append_head(family, "_bucket", labels, "le", i < bound_count ? bounds[i] : INFINITY);
    append_integer(&family->samples, total);
  }
  append_part(family, "_sum", labels, sum);
  append_count(family, "_count", labels, total);
}

void metrics_family_add_summary(metrics_family *family, slice labels, const double *quantiles,
                                const double *values, size_t quantile_count, uint64_t count,
                                double sum)
{
  if (family == NULL)
    return;
  append_count(family, "_count", labels, count);
  append_part(family, "_sum", labels, sum);
  for (size_t i = 0; i < quantile_count; i++) {
    append_head(family, "", labels, "quantile", quantiles[i]);
    append_number(&family->samples, values[i]);
    buffer_append_char(&family->samples, '\n');
  }
}

bool metrics_sheet_print(const metrics_sheet *sheet, buffer *text)
{
  bool complete = !sheet->failed;
  const string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&sheet->families, &i)) != NULL;) {
    const metrics_family *family = entry->value;
    complete = complete && !family->samples.failed;
    if (family->samples.size == 0)
      continue;
    buffer_append_format(text, "# HELP %s ", family->name);
    append_escaped(text, family->help, false);
    buffer_append_format(text, "\n# TYPE %s %s\n", family->name, kind_texts[family->kind]);
    buffer_append_slice(text, buffer_view(&family->samples));
  }
  return complete && !text->failed;
}
