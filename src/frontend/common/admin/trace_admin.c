// Reads the settings in the order of their keys, whatever the request's.
#include "frontend/common/admin/trace_admin.h"

#include "frontend/common/observe/frontend_log.h"

#include <string.h>

static const trace_member *find(const trace_member *members, size_t count, const char *name)
{
  while (count-- > 0)
    if (strcmp(members[count].name, name) == 0)
      return &members[count];
  return NULL;
}

static error *read_member(const trace_member *m, trace_key key, trace_update *update)
{
  if (m == NULL)
    return NULL;
  if (m->count > TRACE_VALUES_MAX)
    return error_new(ERROR_INVALID_ARG, "'%s' has more than %d values", m->name, TRACE_VALUES_MAX);
  return trace_update_read(update, key, m->values, m->count);
}

static void warn_of_unknown(const trace_member *members, size_t count)
{
  ignored_settings ignored = {0};
  for (size_t i = 0; i < count; i++)
    if (!trace_key_is_known(members[i].name))
      ignored_settings_add(&ignored, members[i].name);
  ignored_settings_warn(&ignored, "trace");
}

error *trace_admin_change(trace_service *s, const char *model, const trace_member *members,
                          size_t count)
{
  trace_update update = {0};
  if (find(members, count, "trace_file") != NULL)
    return trace_file_refused();
  for (trace_key key = 0; key < TRACE_KEY_COUNT_OF_KEYS; key++)
    RETURN_IF_ERROR(read_member(find(members, count, trace_key_name(key)), key, &update));
  warn_of_unknown(members, count);
  return trace_service_update(s, model, &update);
}
