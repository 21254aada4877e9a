// Which variables pass, and which are added.
#include "process/variables.h"

#include "backend_error.h"
#include "base/cleanup.h"

#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

// What is between the server and those who started it. What runs a worker must not be taken from
// elsewhere than its environment.
static const char *const DROPPED[] = {
    "NOTIFY_SOCKET",  "WATCHDOG_USEC", "WATCHDOG_PID",          "LISTEN_PID",
    "LISTEN_PIDFDID", "LISTEN_FDS",    "LISTEN_FDNAMES",        "MAINPID",
    "MANAGERPID",     "INVOCATION_ID", "CREDENTIALS_DIRECTORY", "TRITON_CLOUD_CREDENTIAL_PATH",
    "JOURNAL_STREAM"};

// Level strict.
static const char *const PASSED[] = { // programs, people, numeric libraries, frameworks
    "PATH",         "LD_LIBRARY_PATH", "PYTHON*", "MALLOC_*",  "GLIBC_TUNABLES",
    "LANG",         "LANGUAGE",        "LC_*",    "TZ",        "SSL_CERT_FILE",
    "SSL_CERT_DIR", "OMP_*",           "KMP_*",   "GOMP_*",    "MKL_*",
    "OPENBLAS_*",   "BLIS_*",          "GOTO_*",  "NUMEXPR_*", "NUMBA_*",
    "CUDA_*",       "NVIDIA_*",        "NCCL_*",  "TORCH_*",   "PYTORCH_*",
    "TF_*",         "XLA_*",           "JAX_*",   "HF_*",      "TRANSFORMERS_*",
    "TOKENIZERS_*"};
static const char *const SECRETS[] = {"*TOKEN*", "*SECRET*", "*PASSWORD*", "*CREDENTIAL*", "*KEY*"};

// They start as many threads as the machine has processors, in each worker, unless told otherwise.
static const char *const THREAD_COUNTS[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "MKL_NUM_THREADS", "BLIS_NUM_THREADS",
                                            "NUMEXPR_NUM_THREADS"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// ---- names

static bool is_in(const char *name, const char *const *patterns, size_t count, int flags)
{
  for (size_t i = 0; i < count; i++)
    if (fnmatch(patterns[i], name, flags) == 0)
      return true;
  return false;
}

// Those that add_python_variables sets anew, or that would lead to another Python.
static bool is_replaced(const char *name, const python_interpreter *python)
{
  static const char *const names[] = {"PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME",
                                      "LD_LIBRARY_PATH"};
  return python->kind != ENVIRONMENT_NONE &&
         is_in(name, names, COUNT(names) - (python->kind != ENVIRONMENT_CONDA), 0);
}

static bool is_passed(const char *variable, const python_interpreter *python, bool strict)
{
  AUTO_FREE char *name = strndup(variable, strcspn(variable, "="));
  if (name == NULL || is_in(name, DROPPED, COUNT(DROPPED), 0) || is_replaced(name, python))
    return false;
  return !strict || (is_in(name, PASSED, COUNT(PASSED), 0) &&
                     !is_in(name, SECRETS, COUNT(SECRETS), FNM_CASEFOLD));
}

// ---- values

// "NAME=dir/below:rest", without the colon when there is no rest.
static void add_path(string_list *to, const char *name, const char *dir, const char *below)
{
  const char *rest = getenv(name);
  bool more = rest != NULL && *rest != '\0';
  string_list_add_format(to, "%s=%s/%s%s%s", name, dir, below, more ? ":" : "", more ? rest : "");
}

// As its script `activate` does.
static void add_python_variables(const python_interpreter *python, string_list *to)
{
  if (python->kind == ENVIRONMENT_NONE)
    return;
  bool virtual = python->kind == ENVIRONMENT_VIRTUAL;
  add_path(to, "PATH", python->dir, "bin");
  string_list_add_format(to, "%s=%s", virtual ? "VIRTUAL_ENV" : "CONDA_PREFIX", python->dir);
  if (!virtual)
    add_path(to, "LD_LIBRARY_PATH", python->dir, "lib");
}

TRITONSERVER_Error *worker_variables_init(string_list *to, const python_interpreter *python,
                                          int64_t threads, bool strict)
{
  *to = (string_list){0};
  for (char **variable = environ; *variable != NULL; variable++)
    if (is_passed(*variable, python, strict))
      string_list_add(to, *variable);
  add_python_variables(python, to);
  for (size_t i = 0; i < COUNT(THREAD_COUNTS); i++)
    if (getenv(THREAD_COUNTS[i]) == NULL)
      string_list_add_format(to, "%s=%lld", THREAD_COUNTS[i],
                             (long long)(threads < 1 ? 1 : threads));
  return to->failed ? backend_error_no_memory("the model") : NULL;
}
