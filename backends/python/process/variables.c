// Which variables pass, and which are added.
#include "process/variables.h"

#include "process/text_vector.h"

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
static const char *const PASSED[] = { // programs, people, numeric libraries, frameworks
    "PATH",         "LD_LIBRARY_PATH", "PYTHON*", "MALLOC_*",  "GLIBC_TUNABLES",
    "LANG",         "LANGUAGE",        "LC_*",    "TZ",        "SSL_CERT_FILE",
    "SSL_CERT_DIR", "OMP_*",           "KMP_*",   "GOMP_*",    "MKL_*",
    "OPENBLAS_*",   "BLIS_*",          "GOTO_*",  "NUMEXPR_*", "NUMBA_*",
    "CUDA_*",       "NVIDIA_*",        "NCCL_*",  "TORCH_*",   "PYTORCH_*",
    "TF_*",         "XLA_*",           "JAX_*",   "HF_*",      "TRANSFORMERS_*",
    "TOKENIZERS_*"};
static const char *const SECRET_WORDS[] = {"TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "KEY"};

// They start as many threads as the machine has processors, in each worker, unless told otherwise.
static const char *const THREAD_COUNTS[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                                            "NUMEXPR_NUM_THREADS"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

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
  for (size_t i = 0; i < COUNT(SECRET_WORDS); i++)
    for (size_t word = strlen(SECRET_WORDS[i]), at = 0; at + word <= length; at++)
      if (strncasecmp(variable + at, SECRET_WORDS[i], word) == 0)
        return true;
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

// "NAME=dir/below:rest", without the colon when there is no rest.
static void add_path(text_vector *to, const char *name, const char *dir, const char *below)
{
  const char *rest = getenv(name);
  bool more = rest != NULL && *rest != '\0';
  text_vector_add(to, "%s=%s/%s%s%s", name, dir, below, more ? ":" : "", more ? rest : "");
}

// As its script `activate` does.
static void add_python_variables(const python_interpreter *python, text_vector *to)
{
  if (python->kind == ENVIRONMENT_NONE)
    return;
  bool virtual = python->kind == ENVIRONMENT_VIRTUAL;
  add_path(to, "PATH", python->dir, "bin");
  text_vector_add(to, "%s=%s", virtual ? "VIRTUAL_ENV" : "CONDA_PREFIX", python->dir);
  if (!virtual)
    add_path(to, "LD_LIBRARY_PATH", python->dir, "lib");
}

char **worker_variables_new(const python_interpreter *python, int64_t threads, bool strict)
{
  text_vector to = {0};
  for (char **variable = environ; *variable != NULL; variable++)
    if (is_passed(*variable, python, strict))
      text_vector_add(&to, "%s", *variable);
  add_python_variables(python, &to);
  for (size_t i = 0; i < COUNT(THREAD_COUNTS); i++)
    if (getenv(THREAD_COUNTS[i]) == NULL)
      text_vector_add(&to, "%s=%lld", THREAD_COUNTS[i], (long long)(threads < 1 ? 1 : threads));
  return text_vector_take(&to);
}
