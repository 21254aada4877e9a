// Start-up tables in Triton's layout.
#include "core/server_tables.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/table.h"
#include "core/server_state.h"
#include "core/server_status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void log_and_free(table *t)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  table_print(t, log_table_width(), &text);
  if (!text.failed)
    log_write_table(LOG_LEVEL_INFO, __FILE_NAME__, __LINE__, buffer_view(&text));
  table_fini(t);
}

static void add_backend(void *context, const backend *b)
{
  table_add(context,
            (const char *const[]){b->name, b->library, b->config != NULL ? b->config->text : ""});
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

// One row for each text: "<name><number><end>".
static void add_list(table *t, const char *name, const char *end, const string_list *list)
{
  for (size_t i = 0; i < list->count; i++) {
    char numbered[64];
    snprintf(numbered, sizeof(numbered), "%s%zu%s", name, i, end);
    table_add(t, (const char *const[]){numbered, list->items[i]});
  }
}

// The rows that Triton has, in its order.
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
  add_option(t, "model_control_mode", "%s", modes[o->model_control_mode]);
  add_list(t, "startup_models_", "", &o->startup_models);
  add_option(t, "strict_model_config", "%d", o->strict_model_config);
  add_option(t, "model_config_name", "%s", o->model_config_name);
  add_option(t, "rate_limit", "%s", "OFF");
  add_option(t, "pinned_memory_pool_byte_size", "%" PRIu64, o->pinned_memory_pool_bytes);
  add_option(t, "min_supported_compute_capability", "%.1f", o->min_compute_capability);
  add_option(t, "strict_readiness", "%d", o->strict_readiness);
  add_option(t, "exit_timeout", "%u", o->exit_timeout_seconds);
  add_option(t, "cache_enabled", "%d", 0);
}

void server_log_tables(server *s)
{
  if (!log_is_enabled(LOG_LEVEL_INFO))
    return;
  table agents;
  table_init(&agents, 2, (const char *const[]){"Repository Agent", "Path"});
  log_and_free(&agents);

  table backends;
  table_init(&backends, 3, (const char *const[]){"Backend", "Path", "Config"});
  backend_registry_visit(&s->backends, add_backend, &backends);
  log_and_free(&backends);

  table models;
  size_t count;
  model_entry **entries AUTO_FREE = NULL;
  error_free(model_table_sorted(&s->models, &entries, &count)); // then a table without rows
  table_init(&models, 3, (const char *const[]){"Model", "Version", "Status"});
  for (size_t i = 0; i < count; i++)
    add_model(&models, entries[i]);
  log_and_free(&models);

  table options;
  table_init(&options, 2, (const char *const[]){"Option", "Value"});
  add_options(&options, s);
  log_and_free(&options);
}
