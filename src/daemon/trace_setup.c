// SPDX-License-Identifier: Apache-2.0
// Reads the trace flags: --trace-config, and the deprecated flags, which it overrides.
#include "daemon/trace_setup.h"

#include "frontend/common/observe/frontend_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Turns a deprecated flag into a setting of --trace-config.
static error *set_deprecated(trace_config *c, const char *flag, const char *prefix,
                             const char *value)
{
  char *setting = NULL;
  if (value[0] == '\0')
    return NULL;
  fprintf(stderr, "Warning: '--%s' is deprecated, use '--trace-config %s<value>'\n", flag, prefix);
  if (asprintf(&setting, "%s%s", prefix, value) < 0)
    return error_no_memory();
  error *e = trace_config_set(c, setting);
  free(setting);
  return e == NULL ? NULL : error_wrap(e, "--%s", flag);
}

static error *set_trace_config(trace_config *c, const char *text)
{
  error *e = trace_config_set(c, text);
  if (e == NULL || error_get_code(e) != ERROR_NOT_FOUND)
    return e == NULL ? NULL : error_wrap(e, "--trace-config");
  frontend_log_warning("--trace-config: %s; it is ignored", error_message(e)); // as in Triton
  error_free(e);
  return NULL;
}

static error *read_deprecated(trace_config *c, const daemon_options *o)
{
  const struct {
    const char *flag, *prefix, *value;
  } rows[] = {{"trace-file", "triton,file=", o->trace_file},
              {"trace-rate", "rate=", o->trace_rate},
              {"trace-count", "count=", o->trace_count},
              {"trace-log-frequency", "triton,log-frequency=", o->trace_log_frequency}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    RETURN_IF_ERROR(set_deprecated(c, rows[i].flag, rows[i].prefix, rows[i].value));
  for (size_t i = 0; i < o->trace_levels.count; i++)
    RETURN_IF_ERROR(set_deprecated(c, "trace-level", "level=", o->trace_levels.items[i]));
  return NULL;
}

static error *read_trace_flags(trace_config *c, const daemon_options *o)
{
  RETURN_IF_ERROR(trace_config_init(c));
  RETURN_IF_ERROR(read_deprecated(c, o));
  for (size_t i = 0; i < o->trace_configs.count; i++)
    RETURN_IF_ERROR(set_trace_config(c, o->trace_configs.items[i]));
  return NULL;
}

// Only a warning, as in Triton.
static void warn_of_no_file(const trace_config *c)
{
  if (c->mode == TRACE_MODE_TRITON && c->values[TRACE_KEY_LEVEL] != 0 && c->file[0] == '\0')
    fprintf(stderr, "Warning: nothing is traced: there is a trace level but no file, use "
                    "'--trace-config triton,file=<path>'\n");
}

error *trace_setup(const daemon_options *o, trace_service **service)
{
  trace_config c;
  error *e = read_trace_flags(&c, o);
  if (e == NULL) {
    warn_of_no_file(&c);
    e = trace_service_new(&c, service);
  }
  trace_config_fini(&c);
  return e;
}
