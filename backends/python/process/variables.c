// Which variables pass, and which are added.
#include "process/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

// What is between the server and those who started it. What runs a worker must not be taken from
// elsewhere than its environment.
static const char *const DROPPED[] = {
    "NOTIFY_SOCKET",  "WATCHDOG_USEC", "WATCHDOG_PID",          "LISTEN_PID",
    "LISTEN_PIDFDID", "LISTEN_FDS",    "LISTEN_FDNAMES",        "MAINPID",
    "MANAGERPID",     "INVOCATION_ID", "CREDENTIALS_DIRECTORY", "TRITON_CLOUD_CREDENTIAL_PATH",
    "JOURNAL_STREAM"};

// Level strict. A name that ends with '*' stands for all that begin so.
static const char *const PASSED[] = {"PATH",
                                     "LANG",
                                     "LANGUAGE",
                                     "LC_*",
                                     "TZ",
                                     "LD_LIBRARY_PATH",
                                     "PYTHON*",
                                     "OMP_*",
                                     "KMP_*",
                                     "GOMP_*",
                                     "MKL_*",
                                     "OPENBLAS_*",
                                     "BLIS_*",
                                     "GOTO_*",
                                     "NUMEXPR_*",
                                     "NUMBA_*",
                                     "CUDA_*",
                                     "NVIDIA_*",
                                     "NCCL_*",
                                     "TORCH_*",
                                     "PYTORCH_*",
                                     "TF_*",
                                     "XLA_*",
                                     "JAX_*",
                                     "HF_*",
                                     "TRANSFORMERS_*",
                                     "TOKENIZERS_*",
                                     "SSL_CERT_FILE",
                                     "SSL_CERT_DIR",
                                     "MALLOC_*",
                                     "GLIBC_TUNABLES"};
static const char *const SECRET_WORDS[] = {"TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "KEY"};

// They start as many threads as the machine has processors, in each worker, unless told otherwise.
static const char *const THREAD_COUNTS[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                                            "NUMEXPR_NUM_THREADS"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
  ADDED = 4 // for the environment: PATH, its library path and its own variable
};

// ---- names

static bool is_named(const char *variable, const char *name)
{
  size_t length = strlen(name);
  if (name[length - 1] == '*')
    return strncmp(variable, name, length - 1) == 0;
  return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

static bool is_in(const char *variable, const char *const *names, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (is_named(variable, names[i]))
      return true;
  return false;
}

static bool has_secret_word(const char *variable)
{
  size_t length = strcspn(variable, "=");
  for (size_t i = 0; i < COUNT(SECRET_WORDS); i++) {
    size_t word = strlen(SECRET_WORDS[i]);
    for (size_t at = 0; at + word <= length; at++)
      if (strncasecmp(variable + at, SECRET_WORDS[i], word) == 0)
        return true;
  }
  return false;
}

// Those that add_python_variables sets anew, or that would lead to another Python.
static bool is_replaced(const char *variable, const python_interpreter *python)
{
  static const char *const names[] = {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"};
  if (python->kind == ENVIRONMENT_NONE)
    return false;
  return is_in(variable, names, COUNT(names)) ||
         (python->kind == ENVIRONMENT_CONDA && is_named(variable, "LD_LIBRARY_PATH"));
}

static bool is_passed(const char *variable, const python_interpreter *python, bool strict)
{
  if (is_in(variable, DROPPED, COUNT(DROPPED)) || is_replaced(variable, python))
    return false;
  return !strict || (is_in(variable, PASSED, COUNT(PASSED)) && !has_secret_word(variable));
}

// ---- values

// "NAME=first:rest", without the colon when there is no rest.
static char *path_variable(const char *name, const char *dir, const char *below)
{
  const char *rest = getenv(name);
  char *variable;
  bool more = rest != NULL && *rest != '\0';
  int length =
      asprintf(&variable, "%s=%s/%s%s%s", name, dir, below, more ? ":" : "", more ? rest : "");
  return length < 0 ? NULL : variable;
}

static char *variable_of(const char *name, const char *value)
{
  char *variable;
  return asprintf(&variable, "%s=%s", name, value) < 0 ? NULL : variable;
}

// As its script `activate` does.
static bool add_python_variables(const python_interpreter *python, char **to, size_t *count)
{
  if (python->kind == ENVIRONMENT_NONE)
    return true;
  bool virtual = python->kind == ENVIRONMENT_VIRTUAL;
  size_t from = *count;
  to[(*count)++] = path_variable("PATH", python->dir, "bin");
  to[(*count)++] = variable_of(virtual ? "VIRTUAL_ENV" : "CONDA_PREFIX", python->dir);
  if (!virtual)
    to[(*count)++] = path_variable("LD_LIBRARY_PATH", python->dir, "lib");
  for (size_t i = from; i < *count; i++)
    if (to[i] == NULL) {
      *count = i;
      return false;
    }
  return true;
}

static bool add_thread_counts(int64_t threads, char **to, size_t *count)
{
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)(threads < 1 ? 1 : threads));
  for (size_t i = 0; i < COUNT(THREAD_COUNTS); i++)
    if (getenv(THREAD_COUNTS[i]) == NULL) {
      to[*count] = variable_of(THREAD_COUNTS[i], text);
      if (to[*count] == NULL)
        return false;
      ++*count;
    }
  return true;
}

char **worker_variables_new(const python_interpreter *python, int64_t threads, bool strict)
{
  size_t count = 0, kept = 0;
  while (environ[count] != NULL)
    count++;
  char **result = calloc(count + COUNT(THREAD_COUNTS) + ADDED + 1, sizeof *result);
  bool complete = result != NULL;
  for (size_t i = 0; complete && i < count; i++)
    if (is_passed(environ[i], python, strict))
      complete = (result[kept++] = strdup(environ[i])) != NULL;
  if (complete && add_python_variables(python, result, &kept) &&
      add_thread_counts(threads, result, &kept))
    return result;
  worker_variables_free(result);
  return NULL;
}

void worker_variables_free(char **environment)
{
  for (char **variable = environment; variable != NULL && *variable != NULL; variable++)
    free(*variable);
  free(environment);
}
