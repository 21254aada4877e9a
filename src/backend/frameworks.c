// SPDX-License-Identifier: Apache-2.0
// The list of frameworks; see frameworks.h. Load threads add, the start and scrapes read.
#include "backend/frameworks.h"

#include "base/cleanup.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct framework_entry {
  framework_record record; // its texts are owned
  struct framework_entry *next;
} framework_entry;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static framework_entry *entries; // guarded by `lock`; in the order of opening

static bool is_same(const framework_record *a, const framework_record *b)
{
  return strcmp(a->backend, b->backend) == 0 && strcmp(a->name, b->name) == 0 &&
         strcmp(a->version, b->version) == 0 && strcmp(a->path, b->path) == 0;
}

static void free_entry(framework_entry *entry)
{
  free((void *)entry->record.backend);
  free((void *)entry->record.name);
  free((void *)entry->record.version);
  free((void *)entry->record.path);
  free(entry);
}

static framework_entry *copy(const framework_record *r)
{
  framework_entry *entry = calloc(1, sizeof(*entry));
  if (entry == NULL)
    return NULL;
  entry->record = (framework_record){.backend = strdup(r->backend),
                                     .name = strdup(r->name),
                                     .version = strdup(r->version),
                                     .path = strdup(r->path),
                                     .open_ns = r->open_ns};
  const framework_record *c = &entry->record;
  if (c->backend != NULL && c->name != NULL && c->version != NULL && c->path != NULL)
    return entry;
  free_entry(entry);
  return NULL;
}

error *frameworks_add(const framework_record *record)
{
  LOCK_SCOPE(&lock);
  framework_entry **at = &entries;
  while (*at != NULL && !is_same(&(*at)->record, record))
    at = &(*at)->next;
  if (*at == NULL)
    *at = copy(record);
  return *at == NULL ? error_no_memory() : NULL;
}

void frameworks_visit(framework_visitor *visit, void *context)
{
  LOCK_SCOPE(&lock);
  for (const framework_entry *e = entries; e != NULL; e = e->next)
    visit(context, &e->record);
}
