// Start-up tables in Triton's layout.
#include "core/server_tables.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/table.h"
#include "core/server_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void log_and_free(table *t)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  table_print(t, &text);
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
  model_entry **entries AUTO_FREE = model_table_sorted(&s->models, &count);
  table_init(&models, 3, (const char *const[]){"Model", "Version", "Status"});
  for (size_t i = 0; i < count; i++)
    add_model(&models, entries[i]);
  log_and_free(&models);
}
