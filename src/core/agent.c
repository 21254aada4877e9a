// SPDX-License-Identifier: Apache-2.0
// Opening and closing of agents' libraries.
#include "core/agent.h"

#include "backend/library.h"
#include "base/cleanup.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void agent_registry_init(agent_registry *registry, const char *dir)
{
  *registry = (agent_registry){.dir = dir};
  pthread_mutex_init(&registry->lock, NULL);
}

void agent_registry_fini(agent_registry *registry)
{
  assert(registry->agents.live_count == 0);
  string_map_fini(&registry->agents);
  pthread_mutex_destroy(&registry->lock);
}

static error *find_functions(agent *a)
{
  agent_functions *f = &a->functions;
  const struct {
    const char *symbol;
    void *function;
  } table[] = {
      {"TRITONREPOAGENT_Initialize", &f->initialize},
      {"TRITONREPOAGENT_Finalize", &f->finalize},
      {"TRITONREPOAGENT_ModelInitialize", &f->model_initialize},
      {"TRITONREPOAGENT_ModelFinalize", &f->model_finalize},
      {"TRITONREPOAGENT_ModelAction", &f->model_action},
  };
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
    library_find(a->handle, table[i].symbol, table[i].function);
  if (f->model_action == NULL)
    return error_new(ERROR_NOT_FOUND,
                     "unable to find required entrypoint 'TRITONREPOAGENT_ModelAction' in shared "
                     "library '%s'",
                     a->library);
  return NULL;
}

// As in Triton, Finalize also follows an Initialize that failed.
static void end_agent(agent *a)
{
  if (a->handle != NULL && a->functions.finalize != NULL) {
    AUTO_ERROR error *e = (error *)a->functions.finalize(a);
    if (e != NULL)
      log_error("failed to finalize repository agent '%s': %s", a->name, error_message(e));
  }
  library_close(a->handle);
  free(a->name);
  free(a->library);
  free(a);
}

static error *find_library(const agent_registry *registry, const char *name, char **path)
{
  if (name[0] == '\0' || strchr(name, '/') != NULL || strstr(name, "..") != NULL)
    return error_new(ERROR_INVALID_ARG,
                     "invalid repo agent name '%s', expected the name of a directory in %s", name,
                     registry->dir);
  if (asprintf(path, "%s/%s/libtritonrepoagent_%s.so", registry->dir, name, name) < 0) {
    *path = NULL;
    return error_no_memory();
  }
  if (access(*path, F_OK) == 0)
    return NULL;
  return error_new(ERROR_INVALID_ARG,
                   "unable to find 'libtritonrepoagent_%s.so' for repo agent '%s', searched: %s",
                   name, name, registry->dir);
}

static error *start_agent(agent *a)
{
  RETURN_IF_ERROR(library_open(a->library, &a->handle));
  RETURN_IF_ERROR(find_functions(a));
  return a->functions.initialize != NULL ? (error *)a->functions.initialize(a) : NULL;
}

static error *load_agent(const agent_registry *registry, const char *name, agent **result)
{
  agent *a = calloc(1, sizeof(*a));
  if (a == NULL)
    return error_no_memory();
  error *e = (a->name = strdup(name)) == NULL ? error_no_memory() : NULL;
  if (e == NULL)
    e = find_library(registry, name, &a->library);
  if (e == NULL)
    e = start_agent(a);
  if (e != NULL) {
    end_agent(a);
    return e;
  }
  *result = a;
  return NULL;
}

error *agent_acquire(agent_registry *registry, const char *name, agent **result)
{
  LOCK_SCOPE(&registry->lock);
  agent *a = string_map_get(&registry->agents, slice_of(name));
  if (a == NULL) {
    RETURN_IF_ERROR(load_agent(registry, name, &a));
    if (!string_map_put(&registry->agents, slice_of(name), a)) {
      end_agent(a);
      return error_no_memory();
    }
  }
  a->users++;
  *result = a;
  return NULL;
}

void agent_release(agent_registry *registry, agent *a)
{
  LOCK_SCOPE(&registry->lock);
  assert(a->users > 0);
  if (--a->users > 0)
    return;
  string_map_remove(&registry->agents, slice_of(a->name));
  end_agent(a);
}

void agent_registry_visit(agent_registry *registry, agent_visitor *visit, void *context)
{
  LOCK_SCOPE(&registry->lock);
  size_t position = 0;
  const string_map_entry *entry;
  while ((entry = string_map_walk(&registry->agents, &position)) != NULL)
    visit(context, entry->value);
}
