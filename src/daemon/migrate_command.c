// SPDX-License-Identifier: Apache-2.0
// Reads the Triton command line.
#include "daemon/migrate_command.h"

#include "base/cleanup.h"
#include "base/text.h"
#include "daemon/access_rules.h"
#include "daemon/command_line.h"
#include "daemon/error_line.h"
#include "daemon/migrate_report.h"
#include "daemon/server_setup.h"
#include "frontend/common/observe/abi_error.h"
#include "nereid/nereid.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOGETHER 2 // findings about several flags together

// ---- flags ----

static bool is_program(const char *word)
{
  const char *slash = strrchr(word, '/');
  const char *name = slash != NULL ? slash + 1 : word;
  return strcmp(name, "tritonserver") == 0 || strcmp(name, "nereid") == 0;
}

// Where the flags begin: after the word that names the program. A word that is the value of another
// program's flag does not count (docker run --name tritonserver ...).
static size_t first_flag(const string_list *words)
{
  bool is_value = false;
  for (size_t i = 0; i < words->count && words->items[0][0] != '-'; i++) {
    if (!is_value && is_program(words->items[i]))
      return i + 1;
    is_value = words->items[i][0] == '-';
  }
  return 0;
}

// An error that says nothing about the flags.
static bool is_memory(const error *e)
{
  return e != NULL && error_get_code(e) == ERROR_UNAVAILABLE;
}

// The value in the spelling of the notes.
static const char *meaning(daemon_options *given, const option *o, const char *value)
{
  const void *field = option_field(given, o);
  if (o->kind == OPTION_BOOL)
    return *(const bool *)field ? "true" : "false";
  return o->kind == OPTION_CHOICE ? *(char *const *)field : value;
}

// The error's text without the flag's name, which stands before it already.
static const char *reason(const error *e, const char *word)
{
  const char *text = error_message(e);
  size_t size = strlen(word);
  return strncmp(text, word, size) == 0 && strncmp(text + size, ": ", 2) == 0 ? text + size + 2
                                                                              : text;
}

static error *keep(migrate_report *r, const option *o, const char *value)
{
  bool plain = o->kind == OPTION_FLAG && strcmp(value, "true") == 0;
  if (string_list_add(&r->given, o->name) &&
      (plain ? string_list_add_format(&r->command, "--%s", o->name)
             : string_list_add_format(&r->command, "--%s=%s", o->name, value)))
    return NULL;
  return error_no_memory();
}

// Why the repository cannot be read here, or NULL. The flag stays in nereid's command line: the
// directory may exist in a container.
static const char *fault_of_repository(const option *o, const char *path)
{
  if (o->field != option_find("model-repository")->field)
    return NULL;
  AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return dir < 0 ? strerror(errno) : NULL;
}

static error *add_known(migrate_report *r, daemon_options *given, const option *o,
                        const char *value)
{
  char word[64];
  snprintf(word, sizeof(word), "--%s", o->name);
  const char *shown = o->kind == OPTION_FLAG && strcmp(value, "true") == 0 ? NULL : value;
  AUTO_ERROR error *e = option_set(given, o, value);
  if (is_memory(e))
    return error_no_memory();
  if (e != NULL)
    return migrate_report_add(r, word, shown, FLAG_REFUSED, reason(e, word));
  const flag_note *note = flag_note_find(o, meaning(given, o, value));
  if (note == NULL || note->effect != FLAG_REFUSED)
    RETURN_IF_ERROR(keep(r, o, value));
  if (note != NULL)
    return migrate_report_add(r, word, shown, note->effect, note->text);
  const char *fault = fault_of_repository(o, value);
  if (fault != NULL)
    return migrate_report_add(r, word, shown, FLAG_REFUSED, fault);
  return migrate_report_add(r, word, shown, FLAG_SAME,
                            option_is_of_triton(o) ? "" : "nereid's own, not in Triton");
}

// If the next word is no flag, it counts as the unknown flag's value.
static error *add_unknown(migrate_report *r, const string_list *words, int first, int *at,
                          const error *e)
{
  const char *value = NULL;
  bool has_value = *at < (int)words->count && words->items[*at][0] != '-';
  if (has_value && words->items[first][0] == '-' && strchr(words->items[first], '=') == NULL)
    value = words->items[(*at)++];
  return migrate_report_add(r, words->items[first], value, FLAG_REFUSED, error_message(e));
}

static error *read_flags(migrate_report *r, daemon_options *given, const string_list *words)
{
  const size_t start = first_flag(words);
  for (size_t i = 0; i + 1 < start; i++)
    if (!string_list_add(&r->before, words->items[i]))
      return error_no_memory();
  for (int at = (int)start; at < (int)words->count;) {
    const option *o;
    const char *value;
    int first = at;
    if (strcmp(words->items[at], "--") == 0) { // ends Triton's flags
      at++;
      continue;
    }
    AUTO_ERROR error *e = command_line_read_flag(words->items, (int)words->count, &at, &o, &value);
    if (is_memory(e))
      return error_no_memory();
    if (e != NULL) {
      RETURN_IF_ERROR(add_unknown(r, words, first, &at, e));
      continue;
    }
    RETURN_IF_ERROR(add_known(r, given, o, value));
  }
  return NULL;
}

// ---- the rest ----

// A check writes no log.
static error *quiet(daemon_options *o)
{
  o->log_info = o->log_warning = o->log_error = false;
  o->log_verbose = 0;
  return text_replace(&o->log_file, "") ? NULL : error_no_memory();
}

static error *add_refusal(migrate_report *r, error *e_owned)
{
  if (is_memory(e_owned))
    return e_owned;
  AUTO_ERROR error *e = e_owned;
  return e != NULL ? migrate_report_add(r, "", NULL, FLAG_REFUSED, error_message(e)) : NULL;
}

static error *take_models(migrate_report *r, TRITONSERVER_Message *report)
{
  const char *text;
  size_t size;
  RETURN_IF_ERROR(error_from_abi(TRITONSERVER_MessageSerializeToJson(report, &text, &size)));
  buffer_append(&r->models, text, size);
  json_t *root = json_loadb(text, size, 0, NULL);
  r->models_load = json_integer_value(json_object_get(root, "errors")) == 0 &&
                   json_array_size(json_object_get(root, "missing_backends")) == 0;
  bool is_read = root != NULL;
  json_decref(root);
  return is_read ? NULL : error_no_memory();
}

static error *check_models(migrate_report *r, TRITONSERVER_ServerOptions *s, bool load)
{
  TRITONSERVER_Message *report = NULL;
  RETURN_IF_ERROR(
      error_from_abi(NEREID_CheckRepositories(s, NULL, 0, load ? NEREID_CHECK_LOAD : 0, &report)));
  error *e = take_models(r, report);
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(report));
  return e;
}

// Keeps only the repositories that can be read.
static error *leave_readable(daemon_options *o)
{
  const option *flag = option_find("model-repository");
  string_list all = o->model_repositories;
  o->model_repositories = (string_list){0};
  for (size_t i = 0; i < all.count; i++)
    if (fault_of_repository(flag, all.items[i]) == NULL)
      string_list_add(&o->model_repositories, all.items[i]);
  string_list_fini(&all);
  return o->model_repositories.failed ? error_no_memory() : NULL;
}

static error *try_start(daemon_options *o)
{
  access_rules rules = {0};
  error *e = options_check(o);
  if (e == NULL)
    e = access_rules_read(o, &rules);
  access_rules_fini(&rules);
  return e;
}

// Adds the errors that a start with these flags would give, and the check of the models.
static error *try_options(migrate_report *r, daemon_options *o, bool load)
{
  TRITONSERVER_ServerOptions *s = NULL;
  bool is_known = o->model_repositories.count == 0 && r->refused_count > 0; // refused flags say why
  RETURN_IF_ERROR(quiet(o));
  error *e = is_known ? NULL : try_start(o);
  bool told = e != NULL;
  RETURN_IF_ERROR(add_refusal(r, e));
  RETURN_IF_ERROR(leave_readable(o));
  e = server_setup_options(o, &s);
  if (e != NULL && told && !is_memory(e)) { // mostly the same error
    error_free(e);
    return NULL;
  }
  if (e != NULL)
    return add_refusal(r, e);
  e = o->model_repositories.count > 0 ? check_models(r, s, load) : NULL;
  TRITONSERVER_ErrorDelete(TRITONSERVER_ServerOptionsDelete(s));
  return e;
}

static error *try_command(migrate_report *r, bool load)
{
  daemon_options read;
  error *e = command_line_read(&read, (int)r->command.count, r->command.items);
  if (e != NULL)
    e = add_refusal(r, e);
  else if (!read.help)
    e = try_options(r, &read, load);
  daemon_options_fini(&read);
  return e;
}

static error *print(const migrate_report *r, bool json)
{
  AUTO_BUFFER buffer out = BUFFER_EMPTY;
  if (json)
    migrate_report_print_json(r, &out);
  else
    migrate_report_print(r, &out);
  bool written = !out.failed && fwrite(out.data, 1, out.size, stdout) == out.size;
  return written && fflush(stdout) == 0
             ? NULL
             : error_new(ERROR_INTERNAL, "failed to write to standard output");
}

static error *migrate(const daemon_options *o, migrate_report *r)
{
  daemon_options given;
  RETURN_IF_ERROR(migrate_report_init(r, o->words.count + TOGETHER));
  if (!string_list_add(&r->command, "nereid"))
    return error_no_memory();
  error *e = daemon_options_init(&given, NULL, false);
  if (e == NULL)
    e = read_flags(r, &given, &o->words);
  daemon_options_fini(&given);
  if (e == NULL)
    e = try_command(r, o->migrate.load);
  return e == NULL ? print(r, o->migrate.json) : e;
}

int migrate_run(daemon_options *o)
{
  migrate_report r = {0};
  bool usage = o->words.count == 0;
  AUTO_ERROR error *e = usage ? error_new(ERROR_INVALID_ARG,
                                          "nereid migrate needs a command line of Triton's: nereid "
                                          "migrate -- tritonserver --model-repository=<path> ...")
                              : migrate(o, &r);
  if (e != NULL)
    error_line_print(e);
  bool lost = e != NULL || r.refused_count > 0 || !r.models_load;
  migrate_report_fini(&r);
  if (usage)
    return MIGRATE_USAGE;
  return lost ? EXIT_FAILURE : EXIT_SUCCESS;
}
