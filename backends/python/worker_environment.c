#include "worker_environment.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const DROPPED[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC",  "WATCHDOG_PID",
                                      "LISTEN_PID",    "LISTEN_PIDFDID", "LISTEN_FDS",
                                      "LISTEN_FDNAMES"};

// They start as many threads as the machine has processors, in each worker, unless told otherwise.
static const char *const THREAD_COUNTS[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                                            "NUMEXPR_NUM_THREADS"};

enum {
  THREAD_COUNT_COUNT = sizeof THREAD_COUNTS / sizeof THREAD_COUNTS[0]
};

static bool is_dropped(const char *variable)
{
  for (size_t i = 0; i < sizeof DROPPED / sizeof DROPPED[0]; i++) {
    size_t length = strlen(DROPPED[i]);
    if (strncmp(variable, DROPPED[i], length) == 0 && variable[length] == '=')
      return true;
  }
  return false;
}

static char *thread_count(const char *name, int64_t threads)
{
  char *variable;
  int length = asprintf(&variable, "%s=%lld", name, (long long)(threads < 1 ? 1 : threads));
  return length < 0 ? NULL : variable;
}

char **worker_environment_new(int64_t threads)
{
  size_t count = 0, kept = 0;
  while (environ[count] != NULL)
    count++;
  char **result = calloc(count + THREAD_COUNT_COUNT + 1, sizeof *result);
  bool complete = result != NULL;
  for (size_t i = 0; complete && i < count; i++)
    if (!is_dropped(environ[i]))
      complete = (result[kept++] = strdup(environ[i])) != NULL;
  for (size_t i = 0; complete && i < THREAD_COUNT_COUNT; i++)
    if (getenv(THREAD_COUNTS[i]) == NULL)
      complete = (result[kept++] = thread_count(THREAD_COUNTS[i], threads)) != NULL;
  if (complete)
    return result;
  worker_environment_free(result);
  return NULL;
}

void worker_environment_free(char **environment)
{
  for (char **variable = environment; variable != NULL && *variable != NULL; variable++)
    free(*variable);
  free(environment);
}
