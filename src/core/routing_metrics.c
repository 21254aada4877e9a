// SPDX-License-Identifier: Apache-2.0
// Each model's rules are copied under its lock and printed without it.
#include "core/routing_metrics.h"

#include "base/cleanup.h"
#include "core/version_routing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// The metric families.
typedef struct routing_families {
  metrics_family *labels;         // 1 for each label and its version
  metrics_family *label_requests; // by label
  metrics_family *weights;        // by version
  metrics_family *split_requests;
  metrics_family *shares; // of shadows
  metrics_family *shadows;
  metrics_family *shadow_us;
} routing_families;

static routing_families find_families(metrics_sheet *sheet)
{
  return (routing_families){
      metrics_sheet_family(sheet, METRIC_GAUGE, "nereid_version_label",
                           "Labels of versions: 1 for the version that each names"),
      metrics_sheet_family(sheet, METRIC_COUNTER, "nereid_version_label_requests_total",
                           "Inference requests that named a label"),
      metrics_sheet_family(sheet, METRIC_GAUGE, "nereid_version_split_weight",
                           "Weights by which requests that name no version are split"),
      metrics_sheet_family(sheet, METRIC_COUNTER, "nereid_version_split_requests_total",
                           "Inference requests that the split gave to a version"),
      metrics_sheet_family(sheet, METRIC_GAUGE, "nereid_version_shadow_ratio",
                           "Share of the requests to other versions that a version gets copies of"),
      metrics_sheet_family(sheet, METRIC_COUNTER, "nereid_version_shadow_requests_total",
                           "Copies of requests, by what became of them"),
      metrics_sheet_family(sheet, METRIC_COUNTER, "nereid_version_shadow_duration_us",
                           "Cumulative duration in microseconds of copies that succeeded"),
  };
}

typedef struct row_labels {
  const char *model;
  int64_t version;  // 0: none
  const char *more; // the name of a further label, or NULL
  const char *value;
} row_labels;

static void add(metrics_sheet *sheet, metrics_family *family, const row_labels *row, double value)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  metric_label labels[3] = {{"model", row->model}};
  size_t count = 1;
  char version[24];
  snprintf(version, sizeof(version), "%" PRId64, row->version);
  if (row->version > 0)
    labels[count++] = (metric_label){"version", version};
  if (row->more != NULL)
    labels[count++] = (metric_label){row->more, row->value};
  if (!metrics_render_labels(&text, labels, count))
    sheet->failed = true;
  else
    metrics_family_add(family, buffer_view(&text), value);
}

static void add_rules(metrics_sheet *sheet, const routing_families *f, const char *model,
                      const version_rules rules[RULE_SECTIONS])
{
  for (size_t i = 0; i < rules[RULES_LABELS].count; i++) {
    const version_rule *rule = &rules[RULES_LABELS].items[i];
    const row_labels of_label = {model, rule->version, "label", rule->label};
    const row_labels of_requests = {model, 0, "label", rule->label};
    add(sheet, f->labels, &of_label, 1);
    add(sheet, f->label_requests, &of_requests, (double)rule->requests);
  }
  for (size_t i = 0; i < rules[RULES_SPLIT].count; i++) {
    const version_rule *rule = &rules[RULES_SPLIT].items[i];
    const row_labels row = {model, rule->version, NULL, NULL};
    add(sheet, f->weights, &row, rule->share);
    add(sheet, f->split_requests, &row, (double)rule->requests);
  }
  for (size_t i = 0; i < rules[RULES_SHADOW].count; i++) {
    const version_rule *rule = &rules[RULES_SHADOW].items[i];
    const row_labels row = {model, rule->version, NULL, NULL};
    add(sheet, f->shares, &row, (double)rule->share / VERSION_SHARE_ALL);
  }
}

// Counts are never removed, and new ones are added in front.
static void add_counts(metrics_sheet *sheet, const routing_families *f, const char *model,
                       const shadow_counts *counts)
{
  for (; counts != NULL; counts = counts->next) {
    for (size_t o = 0; o < SHADOW_OUTCOMES; o++) {
      const row_labels row = {model, counts->version, "outcome", shadow_outcome_names[o]};
      add(sheet, f->shadows, &row,
          (double)atomic_load_explicit(&counts->of[o], memory_order_relaxed));
    }
    const row_labels row = {model, counts->version, NULL, NULL};
    add(sheet, f->shadow_us, &row,
        (double)(atomic_load_explicit(&counts->ns, memory_order_relaxed) / 1000));
  }
}

static bool copy_rules(model_entry *entry, version_rules rules[RULE_SECTIONS],
                       const shadow_counts **counts)
{
  LOCK_SCOPE(&entry->lock);
  for (size_t s = 0; entry->routing != NULL && s < RULE_SECTIONS; s++)
    rules[s] = entry->routing->now[s];
  *counts = entry->routing != NULL ? entry->routing->counts : NULL;
  return entry->routing != NULL;
}

void routing_metrics_collect(model_table *models, metrics_sheet *sheet)
{
  version_rules *rules AUTO_FREE = calloc(RULE_SECTIONS, sizeof(*rules));
  model_entry *entry = NULL;
  const shadow_counts *counts;
  if (rules == NULL) {
    sheet->failed = true;
    return;
  }
  const routing_families families = find_families(sheet);
  while ((entry = model_table_next(models, entry)) != NULL) {
    if (!copy_rules(entry, rules, &counts))
      continue;
    add_rules(sheet, &families, entry->name, rules);
    add_counts(sheet, &families, entry->name, counts);
  }
}
