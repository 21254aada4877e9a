// SPDX-License-Identifier: Apache-2.0
// Runs the check.
#include "daemon/check_command.h"

#include "daemon/check_print.h"
#include "daemon/error_line.h"
#include "daemon/server_setup.h"
#include "frontend/common/observe/abi_error.h"
#include "nereid/nereid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The report says everything; log lines appear only when a log flag asks for them.
static void quiet(daemon_options *o)
{
  if (o->log_verbose == 0 && o->log_file[0] == '\0')
    o->log_info = o->log_warning = o->log_error = false;
}

static bool is_coloured(void)
{
  const char *none = getenv("NO_COLOR");
  const char *terminal = getenv("TERM");
  return (none == NULL || none[0] == '\0') && isatty(STDOUT_FILENO) &&
         (terminal == NULL || strcmp(terminal, "dumb") != 0);
}

static error *write_out(const buffer *text)
{
  bool written = !text->failed && fwrite(text->data, 1, text->size, stdout) == text->size &&
                 fflush(stdout) == 0;
  return written ? NULL : error_new(ERROR_INTERNAL, "failed to write to standard output");
}

// Paths on the command line are checked like --model-repository.
static error *add_paths(daemon_options *o)
{
  string_list *to = &o->words;
  const string_list *from = &o->model_repositories;
  if (o->check.print_config[0] != '\0') {
    to = &o->model_repositories;
    from = &o->words;
  }
  for (size_t i = 0; i < from->count; i++)
    if (!string_list_contains(to, from->items[i]) && !string_list_add(to, from->items[i]))
      return error_no_memory();
  if (to->count == 0 && o->check.print_config[0] == '\0')
    return error_new(ERROR_INVALID_ARG, "nereid check needs what to check: a repository, a model's "
                                        "directory or a config.pbtxt");
  return NULL;
}

static error *ask(const daemon_options *o, TRITONSERVER_Message **report)
{
  TRITONSERVER_ServerOptions *s;
  RETURN_IF_ERROR(server_setup_options(o, &s));
  uint32_t flags = o->check.load ? NEREID_CHECK_LOAD : 0;
  TRITONSERVER_Error *e = o->check.print_config[0] != '\0'
                              ? NEREID_CheckPrintConfig(s, o->check.print_config, flags, report)
                              : NEREID_CheckRepositories(s, (const char *const *)o->words.items,
                                                         o->words.count, flags, report);
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerOptionsDelete(s));
  return error_from_abi(e);
}

static error *print(const daemon_options *o, TRITONSERVER_Message *report, bool *well)
{
  const char *text;
  size_t size;
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_MessageSerializeToJson(report, &text, &size)));
  const slice json = {text, size};
  if (o->check.print_config[0] != '\0')
    *well = check_print_config(json, is_coloured(), &out);
  else
    *well = check_print_report(json, o->check.strict, is_coloured(), &out);
  if (o->check.json) {
    out.size = 0;
    buffer_append_slice(&out, json);
    buffer_append_char(&out, '\n');
  }
  return write_out(&out);
}

int check_run(daemon_options *o)
{
  bool well = false;
  TRITONSERVER_Message *report = NULL;
  quiet(o);
  error *e = add_paths(o);
  bool usage = e != NULL;
  if (e == NULL) {
    e = ask(o, &report);
    usage = e != NULL && o->check.print_config[0] == '\0';
  }
  if (e == NULL)
    e = print(o, report, &well);
  if (e != NULL)
    error_line_print(e);
  if (report != NULL)
    TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(report));
  bool failed = e != NULL || !well;
  error_free(e);
  if (usage)
    return CHECK_USAGE;
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
