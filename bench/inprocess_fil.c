// SPDX-License-Identifier: Apache-2.0
// treelite without a server: what the fil backend is measured against; see inprocess.h.
//
//   inprocess_fil LIBRARY MODEL CALLERS THREADS SECONDS ROWS
//
// MODEL is a file of XGBoost in UBJSON.
#include "inprocess.h"

#include "base/clock.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  int (*LoadXGBoostModelUBJSON)(const char *, const char *, void **);
  int (*QueryNumFeature)(void *, int *);
  int (*GTILParseConfig)(const char *, void **);
  int (*GTILPredict)(void *, const void *, const char *, uint64_t, void *, void *);
} api;

static void *model, *gtil;
static int features;
static size_t rows;

static void find(void *library, const char *name, void *function)
{
  void *symbol = dlsym(library, name);
  if (symbol == NULL)
    inprocess_fail(name);
  memcpy(function, &symbol, sizeof(symbol));
}

static void open_library(const char *path)
{
  void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL)
    inprocess_fail(dlerror());
  find(library, "TreeliteLoadXGBoostModelUBJSON", &api.LoadXGBoostModelUBJSON);
  find(library, "TreeliteQueryNumFeature", &api.QueryNumFeature);
  find(library, "TreeliteGTILParseConfig", &api.GTILParseConfig);
  find(library, "TreeliteGTILPredict", &api.GTILPredict);
}

static void load(const char *path, int threads)
{
  char config[64];
  snprintf(config, sizeof(config), "{\"predict_type\":\"default\",\"nthread\":%d}", threads);
  if (api.LoadXGBoostModelUBJSON(path, "{}", &model) != 0 ||
      api.QueryNumFeature(model, &features) != 0 || api.GTILParseConfig(config, &gtil) != 0)
    inprocess_fail("the model does not load");
}

typedef struct caller {
  float *input, *output;
} caller;

static void *caller_new(void)
{
  caller *self = calloc(1, sizeof(*self));
  if (self == NULL)
    inprocess_fail("out of memory");
  const size_t count = rows * (size_t)features;
  self->input = calloc(count + 1, sizeof(float));
  self->output = calloc(rows + 1, sizeof(float)); // of a regressor
  if (self->input == NULL || self->output == NULL)
    inprocess_fail("out of memory");
  for (size_t i = 0; i < count; i++)
    self->input[i] = (float)(i % 17) / 17 - 0.5f;
  return self;
}

static void run(void *state)
{
  const caller *self = state;
  if (api.GTILPredict(model, self->input, "float32", rows, self->output, gtil) != 0)
    inprocess_fail("the prediction fails");
}

int main(int argc, char **argv)
{
  inprocess self = {.caller_new = caller_new, .run = run, .start_ns = clock_monotonic_ns()};
  if (argc != 7)
    inprocess_fail("expected LIBRARY MODEL CALLERS THREADS SECONDS ROWS");
  open_library(argv[1]);
  self.opened_ns = clock_monotonic_ns();
  load(argv[2], atoi(argv[4]));
  self.loaded_ns = clock_monotonic_ns();
  rows = (size_t)atoi(argv[6]);
  inprocess_measure(&self, atoi(argv[3]), atoi(argv[5]));
  return 0;
}
