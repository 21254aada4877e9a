// SPDX-License-Identifier: Apache-2.0
// PyTorch without a server: what the pytorch backend is measured against; see inprocess.h.
//
//   inprocess_pytorch SHIM MODEL CALLERS THREADS SECONDS DIMS
//
// MODEL is TorchScript with one input, of FP32, and DIMS is its shape as 1,64. SHIM is what the
// backend has compiled for the PyTorch that it names; it and what it needs have to be found by
// LD_LIBRARY_PATH. Each caller has a module of its own, as instances have.
#include "inprocess.h"

#include "base/clock.h"
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIMS 8

static struct {
#define MEMBER(result, name, arguments) result(*name) arguments;
  NEREID_TORCH_FUNCTIONS(MEMBER)
#undef MEMBER
} api;

static char *model;
static size_t model_size;
static int64_t dims[MOST_DIMS];
static size_t rank, count = 1;

static void check(const char *failure)
{
  if (failure != NULL)
    inprocess_fail(failure);
}

static void open_library(const char *path, int threads)
{
  void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL), *symbol;
  void (*set_threads)(int) = NULL;
  if (handle == NULL)
    inprocess_fail(dlerror());
#define READ(result, name, arguments)                                                              \
  symbol = dlsym(handle, "nereid_torch_" #name);                                                   \
  if (symbol == NULL)                                                                              \
    inprocess_fail("no nereid_torch_" #name);                                                      \
  memcpy(&api.name, &symbol, sizeof(symbol));
  NEREID_TORCH_FUNCTIONS(READ)
#undef READ
  symbol = dlsym(handle, "_ZN2at15set_num_threadsEi");
  memcpy(&set_threads, &symbol, sizeof(symbol));
  set_threads(threads);
}

static void read_model(const char *path)
{
  FILE *file = fopen(path, "rb");
  if (file == NULL || fseek(file, 0, SEEK_END) != 0)
    inprocess_fail("no model");
  model_size = (size_t)ftell(file);
  model = malloc(model_size + 1);
  rewind(file);
  if (model == NULL || fread(model, 1, model_size, file) != model_size)
    inprocess_fail("no model");
  fclose(file);
}

static void read_dims(char *text)
{
  for (char *part = strtok(text, ","); part != NULL && rank < MOST_DIMS; part = strtok(NULL, ",")) {
    dims[rank++] = atoi(part);
    count *= (size_t)atoi(part);
  }
}

typedef struct caller {
  nereid_torch_module *module;
  float *data;
} caller;

static void *caller_new(void)
{
  caller *self = calloc(1, sizeof(*self));
  float *data = calloc(count, sizeof(*data));
  if (self == NULL || data == NULL)
    inprocess_fail("out of memory");
  self->data = data;
  check(api.load(model, model_size, 1, &self->module));
  return self;
}

static void run(void *state)
{
  static const nereid_torch_options options = {1, 1, 1, -1, -1, -1};
  const caller *self = state;
  const nereid_torch_value input = {
      .name = "x", .type = 6, .dims = dims, .rank = rank, .data = self->data};
  nereid_torch_result *result = NULL;
  check(api.run(self->module, &options, &input, 1, 0, &result));
  api.result_free(result);
}

int main(int argc, char **argv)
{
  inprocess self = {.caller_new = caller_new, .run = run, .start_ns = clock_monotonic_ns()};
  nereid_torch_module *first = NULL;
  if (argc != 7)
    inprocess_fail("expected SHIM MODEL CALLERS THREADS SECONDS DIMS");
  open_library(argv[1], atoi(argv[4]));
  self.opened_ns = clock_monotonic_ns();
  read_model(argv[2]);
  check(api.load(model, model_size, 1, &first));
  self.loaded_ns = clock_monotonic_ns();
  read_dims(argv[6]);
  inprocess_measure(&self, atoi(argv[3]), atoi(argv[5]));
  return 0;
}
