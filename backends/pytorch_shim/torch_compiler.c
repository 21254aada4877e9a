// SPDX-License-Identifier: Apache-2.0
// Starts the compiler by posix_spawn and waits for it.
#include "torch_compiler.h"

#include "base/cleanup.h"
#include "base/files.h"
#include "base/string_list.h"
#include "torch_open.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGE_BYTES 4096

extern char **environ;

static void list_arguments(const torch_compilation *wanted, const char *compiler, const char *made,
                           string_list *list)
{
  const int length = (int)(strrchr(wanted->library, '/') - wanted->library); // torch/lib
  static const char *const flags[] = {"-std=c++20", "-O2", "-shared", "-fPIC", "-w"};
  string_list_add(list, compiler);
  for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
    string_list_add(list, flags[i]);
  string_list_add_format(list, "-D_GLIBCXX_USE_CXX11_ABI=%d", wanted->cxx11);
  string_list_add_format(list, "-I%.*s/../include", length, wanted->library);
  string_list_add_format(list, "-I%.*s/../include/torch/csrc/api/include", length, wanted->library);
  string_list_add(list, wanted->source);
  string_list_add(list, "-o");
  string_list_add(list, made);
  string_list_add_format(list, "-L%.*s", length, wanted->library);
  string_list_add(list, "-ltorch_cpu");
  string_list_add(list, "-lc10");
}

// The compiler's output goes to `messages`, its temporary files to TMPDIR. Its signals are set to
// their defaults.
static int start(const string_list *arguments, int messages, pid_t *process)
{
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, messages, 1);
  posix_spawn_file_actions_adddup2(&actions, messages, 2);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  int failure =
      posix_spawnp(process, arguments->items[0], &actions, &attributes, arguments->items, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return failure;
}

// The first line with an error, else the first line.
static void read_reason(int messages, char *line, size_t size)
{
  char text[MESSAGE_BYTES + 1];
  size_t length = MESSAGE_BYTES;
  if (lseek(messages, 0, SEEK_SET) != 0 || !files_fill(messages, text, &length))
    length = 0;
  text[length] = '\0';
  const char *at = strstr(text, "error");
  while (at != NULL && at > text && at[-1] != '\n')
    at--;
  at = at == NULL ? text : at;
  snprintf(line, size, "%.*s", (int)strcspn(at, "\n"), at);
}

// Returns the exit status; 127 when the program does not exist.
static int run(const string_list *arguments, int messages)
{
  pid_t process = 0;
  int status = 0;
  const int failure = start(arguments, messages, &process);
  if (failure != 0)
    return 127;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR)
    continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool torch_compile(const torch_compilation *wanted, char made[PATH_MAX], char **why_not)
{
  static const char *const usual[] = {"c++", "g++", "clang++"};
  char reason[512];
  int status = 127;
  if (snprintf(made, PATH_MAX, "%s/shim.so", wanted->work_dir) >= PATH_MAX)
    return false;
  for (size_t i = 0; status == 127 && i < (wanted->compiler != NULL ? 1 : 3); i++) {
    const char *compiler = wanted->compiler != NULL ? wanted->compiler : usual[i];
    string_list arguments = {0};
    list_arguments(wanted, compiler, made, &arguments);
    AUTO_CLOSE int messages = torch_memory_file("messages of the compiler");
    if (!arguments.failed && messages >= 0)
      status = run(&arguments, messages);
    read_reason(messages, reason, sizeof(reason));
    string_list_fini(&arguments);
  }
  if (status == 0)
    return true;
  if (status == 127)
    snprintf(reason, sizeof(reason), "no such program");
  if (asprintf(why_not, "%s: %s",
               wanted->compiler != NULL ? wanted->compiler : "c++, g++ or clang++", reason) < 0)
    *why_not = NULL;
  return false;
}
