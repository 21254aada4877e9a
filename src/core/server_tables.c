// SPDX-License-Identifier: Apache-2.0
// Start-up tables in Triton's layout.
#include "core/server_tables.h"

#include "backend/frameworks.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/table.h"
#include "core/gpus.h"
#include "core/server_state.h"
#include "core/server_status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void log_and_free(table *t)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  table_print(t, log_table_width(), &text);
  if (!text.failed)
    log_write_table(LOG_LEVEL_INFO, __FILE_NAME__, __LINE__, buffer_view(&text));
  table_fini(t);
}

// The frameworks of a backend, for its row.
typedef struct framework_cell {
  const char *backend;
  buffer text;
} framework_cell;

static void add_framework(void *context, const framework_record *f)
{
  framework_cell *cell = context;
  if (strcmp(f->backend, cell->backend) == 0)
    buffer_append_format(&cell->text, "%s%s %s from %s", cell->text.size > 0 ? ", " : "", f->name,
                         f->version, f->path);
}

static void note_framework(void *context, const framework_record *f)
{
  (void)f;
  *(bool *)context = true;
}

static void add_backend(void *context, const backend *b)
{
  framework_cell cell = {b->name, BUFFER_EMPTY};
  frameworks_visit(add_framework, &cell);
  char *frameworks AUTO_FREE = buffer_take_text(&cell.text);
  table_add(context,
            (const char *const[]){b->name, b->library, b->config != NULL ? b->config->text : "",
                                  frameworks != NULL ? frameworks : ""});
}

// Triton's columns, and a further one when a backend has reported a framework.
static void log_backends(server *s)
{
  table backends;
  bool has_frameworks = false;
  frameworks_visit(note_framework, &has_frameworks);
  table_init(&backends, has_frameworks ? 4 : 3,
             (const char *const[]){"Backend", "Path", "Config", "Framework"});
  backend_registry_visit(&s->backends, add_backend, &backends);
  log_and_free(&backends);
}

static void add_agent(void *context, const agent *a)
{
  table_add(context, (const char *const[]){a->name, a->library});
}

static void add_version(table *t, const model_entry *entry, const version_slot *v)
{
  char version[32];
  AUTO_BUFFER buffer status = BUFFER_EMPTY;
  snprintf(version, sizeof(version), "%" PRId64, v->version);
  buffer_append_text(&status, version_state_names[v->state]);
  if (v->reason != NULL)
    buffer_append_format(&status, ": %s", v->reason);
  char *text AUTO_FREE = buffer_take_text(&status);
  table_add(t, (const char *const[]){entry->name, version, text != NULL ? text : ""});
}

static void add_model(table *t, model_entry *entry)
{
  LOCK_SCOPE(&entry->lock);
  for (size_t i = 0; i < entry->version_count; i++)
    add_version(t, entry, &entry->versions[i]);
  if (entry->failure == NULL)
    return;
  AUTO_BUFFER buffer status = BUFFER_EMPTY;
  buffer_append_format(&status, "UNAVAILABLE: %s", entry->failure);
  char *text AUTO_FREE = buffer_take_text(&status);
  table_add(t, (const char *const[]){entry->name, "-", text != NULL ? text : ""});
}

static void add_option(table *t, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_option(table *t, const char *name, const char *format, ...)
{
  char *value AUTO_FREE = NULL;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&value, format, arguments) < 0)
    value = NULL;
  va_end(arguments);
  table_add(t, (const char *const[]){name, value != NULL ? value : ""});
}

// Adds a row for each text: "<name><number><end>".
static void add_list(table *t, const char *name, const char *end, const string_list *list)
{
  for (size_t i = 0; i < list->count; i++) {
    char numbered[64];
    snprintf(numbered, sizeof(numbered), "%s%zu%s", name, i, end);
    table_add(t, (const char *const[]){numbered, list->items[i]});
  }
}

// In Triton's format.
static void add_resources(table *t, const setting_list *resources)
{
  for (size_t i = 0; i < resources->count; i++) {
    const setting *s = &resources->items[i];
    char numbered[64];
    snprintf(numbered, sizeof(numbered), "rate_limit_resource[%zu]", i);
    add_option(t, numbered, "{\"name\":\"%s\", \"count\":%s \"device\":%s}", s->name, s->value,
               s->group);
  }
}

// Adds the pool sizes that the operator set, and the defaults of usable devices; ordered by device.
static void add_pools(table *t, const server *s)
{
  const config_gpus gpus = gpus_supported(s->environment.gpus);
  for (int device = 0; device < MAX_GPUS; device++) {
    char name[48];
    snprintf(name, sizeof(name), "%d", device);
    if (!config_has_gpu(gpus, device) &&
        setting_list_get(&s->options.gpu_sizes, GPU_POOL_SIZE, name) == NULL)
      continue;
    snprintf(name, sizeof(name), GPU_POOL_SIZE "{%d}", device);
    add_option(t, name, "%" PRIu64, gpus_pool_size(s->environment.gpus, device));
  }
}

// Adds Triton's rows, in Triton's order.
static void add_options(table *t, const server *s)
{
  static const char *const modes[] = {[TRITONSERVER_MODEL_CONTROL_NONE] = "MODE_NONE",
                                      [TRITONSERVER_MODEL_CONTROL_POLL] = "MODE_POLL",
                                      [TRITONSERVER_MODEL_CONTROL_EXPLICIT] = "MODE_EXPLICIT"};
  const server_options *o = &s->options;
  add_option(t, "server_id", "%s", o->server_id);
  add_option(t, "server_version", "%s", server_version());
  AUTO_BUFFER buffer extensions = BUFFER_EMPTY;
  for (const char *const *e = server_extensions(); *e != NULL; e++)
    buffer_append_format(&extensions, "%s%s", extensions.size > 0 ? " " : "", *e);
  add_option(t, "server_extensions", "%.*s", (int)extensions.size, extensions.data);
  add_list(t, "model_repository_path[", "]", &o->model_repositories);
  add_option(t, "model_control_mode", "%s",
             o->on_demand ? "MODE_ONDEMAND" : modes[o->model_control_mode]);
  add_list(t, "startup_models_", "", &o->startup_models);
  add_option(t, "strict_model_config", "%d", o->strict_model_config);
  add_option(t, "model_config_name", "%s", o->model_config_name);
  add_option(t, "rate_limit", "%s",
             o->rate_limiter_mode == TRITONSERVER_RATE_LIMIT_OFF ? "OFF" : "EXEC_COUNT");
  add_resources(t, &o->rate_limiter_resources);
  add_option(t, "pinned_memory_pool_byte_size", "%" PRIu64, o->pinned_memory_pool_bytes);
  add_pools(t, s);
  add_option(t, "min_supported_compute_capability", "%.1f", o->min_compute_capability);
  add_option(t, "strict_readiness", "%d", o->strict_readiness);
  add_option(t, "exit_timeout", "%u", o->exit_timeout_seconds);
  add_option(t, "cache_enabled", "%d", s->cache != NULL);
}

static void add_gpu(table *t, gpus *g, const gpu_device *d)
{
  char ordinal[12], capability[24], memory[32], status[160];
  snprintf(ordinal, sizeof(ordinal), "%d", d->ordinal);
  snprintf(capability, sizeof(capability), "%d.%d", d->major, d->minor);
  snprintf(memory, sizeof(memory), "%" PRIu64 " MiB", d->memory_bytes >> 20);
  gpus_describe_use(g, d->ordinal, status, sizeof(status));
  table_add(
      t, (const char *const[]){ordinal, d->name, d->uuid, d->pci_id, capability, memory, status});
}

static void log_gpus(gpus *g)
{
  table t;
  const gpu_devices *devices = gpus_devices(g);
  if (devices->count == 0)
    return;
  table_init(&t, 7,
             (const char *const[]){"GPU", "Name", "UUID", "PCI", "Capability", "Memory", "Status"});
  for (size_t i = 0; i < devices->count; i++)
    add_gpu(&t, g, &devices->items[i]);
  log_and_free(&t);
}

void server_log_tables(server *s)
{
  if (!log_is_enabled(LOG_LEVEL_INFO))
    return;
  log_gpus(s->environment.gpus);
  table agents;
  table_init(&agents, 2, (const char *const[]){"Repository Agent", "Path"});
  agent_registry_visit(&s->agents, add_agent, &agents);
  log_and_free(&agents);

  log_backends(s);

  table models;
  size_t count;
  model_entry **entries AUTO_FREE = NULL;
  error_free(model_table_sorted(&s->models, &entries, &count)); // on an error the table is empty
  table_init(&models, 3, (const char *const[]){"Model", "Version", "Status"});
  for (size_t i = 0; i < count; i++)
    add_model(&models, entries[i]);
  log_and_free(&models);

  table options;
  table_init(&options, 2, (const char *const[]){"Option", "Value"});
  add_options(&options, s);
  log_and_free(&options);
}
