// SPDX-License-Identifier: Apache-2.0
// nereid, the daemon: reads its flags and lives until a signal stops it.
#include "base/buffer.h"
#include "config/backend_traits.h"
#include "daemon/access_rules.h"
#include "daemon/command_line.h"
#include "daemon/commands.h"
#include "daemon/error_line.h"
#include "daemon/private_repository.h"
#include "daemon/run.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

// The main thread alone takes signals, from a descriptor. A client that leaves (SIGPIPE), or a file
// at its size limit (SIGXFSZ), is an error of the write instead.
static void set_signals(void)
{
  sigset_t set = life_signals();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

// Each connection needs a descriptor, so raise the limit as far as the system allows.
static void raise_descriptor_limit(void)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); // best effort
  }
}

static int print_help(const command *c)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  command_line_print_help(c, &text);
  bool written = !text.failed && fwrite(text.data, 1, text.size, stdout) == text.size;
  return written && fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

// The memory of large requests goes back to the system; malloc keeps only small blocks.
static void set_allocator(void)
{
  mallopt(M_MMAP_THRESHOLD, 256 << 10); // else it grows with the blocks that are freed
  mallopt(M_TRIM_THRESHOLD, 256 << 10);
}

// Sets the variables while there is only one thread: backends load beside others that read the
// environment. A value that the operator has set stays.
static void set_environment(void)
{
  for (const backend_traits *t = backend_table; t->name != NULL; t++)
    if (t->variable != NULL)
      setenv(t->variable, t->variable_value, 0);
}

static error *serve(daemon_options *options, access_rules *rules, int argument_count,
                    char **arguments, int *status)
{
  set_signals(); // before anything exists that a signal could leave behind
  if (options->command != NULL)
    RETURN_IF_ERROR(options->command->prepare(options));
  RETURN_IF_ERROR(options_check(options));
  RETURN_IF_ERROR(access_rules_read(options, rules));
  set_environment();
  set_allocator();
  raise_descriptor_limit();
  *status = life_run(&(reload){argument_count, arguments, options, rules});
  return NULL;
}

// AddressSanitizer replaces malloc, so glibc's allocator stays unused until OpenVINO calls
// malloc_trim, when a model goes. Two threads that make this first call at once crash, since one
// finds the allocator half initialised. This call initialises it.
static void prepare_allocator(void)
{
#ifdef __SANITIZE_ADDRESS__
  malloc_trim(0);
#endif
}

int main(int argument_count, char **arguments)
{
  daemon_options options;
  access_rules rules = {0};
  int status = EXIT_FAILURE;
  prepare_allocator();
  error *e = command_line_read(&options, argument_count, arguments);
  const command *c = options.command;
  if (e == NULL && options.help)
    status = print_help(c);
  else if (e == NULL && options.version)
    status = puts("nereid " NEREID_VERSION) >= 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  else if (e == NULL && c != NULL && c->run != NULL)
    status = c->run(&options);
  else if (e == NULL)
    e = serve(&options, &rules, argument_count, arguments, &status);
  if (e != NULL) {
    error_line_print(e);
    error_free(e);
    status = c != NULL ? c->usage_status : EXIT_FAILURE;
  }
  private_repository_remove(&options);
  access_rules_fini(&rules);
  daemon_options_fini(&options);
  return status;
}
