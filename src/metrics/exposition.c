// Prints families and samples. Called while a scrape is answered, on the scraper's thread.
#include "metrics/exposition.h"

#include "base/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct metrics_family {
  metrics_sheet *sheet;
  metric_kind kind;
  const char *name;
  const char *help;
  buffer samples;
};

static const char *const kind_texts[] = {
    [METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge", [METRIC_HISTOGRAM] = "histogram"};

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

void metrics_sheet_fini(metrics_sheet *sheet)
{
  const string_map_entry *entry;
  for (size_t i = 0; (entry = string_map_walk(&sheet->families, &i)) != NULL;) {
    metrics_family *family = entry->value;
    buffer_fini(&family->samples);
    free(family);
  }
  string_map_fini(&sheet->families);
}

metrics_family *metrics_sheet_family(metrics_sheet *sheet, metric_kind kind, const char *name,
                                     const char *help)
{
  metrics_family *family = string_map_get(&sheet->families, slice_of(name));
  if (family != NULL)
    return family->kind == kind ? family : NULL;
  family = malloc(sizeof(*family));
  if (family == NULL || !string_map_put(&sheet->families, slice_of(name), family)) {
    free(family);
    sheet->failed = true;
    return NULL;
  }
  *family = (metrics_family){.sheet = sheet, .kind = kind, .name = name, .help = help};
  return family;
}

// Appends `text` with backslash and newline escaped, and quotes where `quotes` says so.
static void append_escaped(buffer *b, const char *text, bool quotes)
{
  for (const char *c = text; *c != '\0'; c++) {
    if (*c == '\n')
      buffer_append_text(b, "\\n");
    else if (*c == '\\' || (quotes && *c == '"')) {
      buffer_append_char(b, '\\');
      buffer_append_char(b, *c);
    } else {
      buffer_append_char(b, *c);
    }
  }
}

bool metrics_render_labels(buffer *text, const metric_label *labels, size_t count)
{
  const metric_label *sorted[METRICS_LABEL_LIMIT];
  if (count > METRICS_LABEL_LIMIT)
    return false;
  for (size_t i = 0; i < count; i++) {
    size_t place = i;
    for (; place > 0 && strcmp(sorted[place - 1]->name, labels[i].name) > 0; place--)
      sorted[place] = sorted[place - 1];
    sorted[place] = &labels[i];
  }
  for (size_t i = 0; i < count; i++) {
    if (i > 0)
      buffer_append_char(text, ',');
    buffer_append_text(text, sorted[i]->name);
    buffer_append_text(text, "=\"");
    append_escaped(text, sorted[i]->value, true);
    buffer_append_char(text, '"');
  }
  return true;
}

// The shortest decimal text that reads back to the same number.
static void append_number(buffer *b, double value)
{
  if (isnan(value)) {
    buffer_append_text(b, "NaN");
  } else if (isinf(value)) {
    buffer_append_text(b, value > 0 ? "+Inf" : "-Inf");
  } else if (fabs(value) < 1e15 && trunc(value) == value) {
    buffer_append_format(b, "%.0f", value);
  } else {
    char text[NUMBER_TEXT_BYTES];
    buffer_append(b, text, number_print_f64(text, value));
  }
}

// Appends `name_suffix{labels,le="bound"} `; `bound` NULL: no such label.
static void append_head(metrics_family *family, const char *suffix, slice labels,
                        const double *bound)
{
  buffer *b = &family->samples;
  buffer_append_text(b, family->name);
  buffer_append_text(b, suffix);
  if (labels.size > 0 || bound != NULL) {
    buffer_append_char(b, '{');
    buffer_append_slice(b, labels);
    if (bound != NULL) {
      buffer_append_text(b, labels.size > 0 ? ",le=\"" : "le=\"");
      append_number(b, *bound);
      buffer_append_char(b, '"');
    }
    buffer_append_char(b, '}');
  }
  buffer_append_char(b, ' ');
}

static void append_sample(metrics_family *family, const char *suffix, slice labels,
                          const double *bound, uint64_t value)
{
  append_head(family, suffix, labels, bound);
  buffer_append_format(&family->samples, "%" PRIu64 "\n", value);
}

void metrics_family_add(metrics_family *family, slice labels, double value)
{
  if (family == NULL)
    return;
  append_head(family, "", labels, NULL);
  append_number(&family->samples, value);
  buffer_append_char(&family->samples, '\n');
}

void metrics_family_add_integer(metrics_family *family, slice labels, uint64_t value)
{
  if (family != NULL)
    append_sample(family, "", labels, NULL, value);
}

void metrics_family_add_histogram(metrics_family *family, slice labels, const double *bounds,
                                  const uint64_t *counts, size_t bound_count, double sum)
{
  static const double infinite = INFINITY;
  if (family == NULL)
    return;
  uint64_t total = 0;
  for (size_t i = 0; i <= bound_count; i++) {
    total += counts[i];
    append_sample(family, "_bucket", labels, i < bound_count ? &bounds[i] : &infinite, total);
  }
  append_head(family, "_sum", labels, NULL);
  append_number(&family->samples, sum);
  buffer_append_char(&family->samples, '\n');
  append_sample(family, "_count", labels, NULL, total);
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
