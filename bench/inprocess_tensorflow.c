// SPDX-License-Identifier: Apache-2.0
// TensorFlow without a server: what the tensorflow backend is measured against.
//
//   inprocess_tensorflow LIBRARY FOLDER CALLERS THREADS SECONDS OUTPUT INPUT=DIMS...
//
// CALLERS threads run the SavedModel in FOLDER without a pause, each time with inputs of FP32 made
// anew (INPUT and OUTPUT are names of the graph, such as serving_default_x:0, and DIMS as 1,4).
// Prints what inprocess.h says.
#include "inprocess.h"

#include "base/clock.h"
#include "tf_api.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUTS 8
#define FLOAT      1

static tf_api api;
static tf_api_session *session;
static tf_api_output inputs[MAX_INPUTS], output;
static int64_t dims[MAX_INPUTS][8];
static int ranks[MAX_INPUTS], input_count;

static void check(const tf_api_status *status)
{
  if (api.GetCode(status) != TF_API_OK)
    inprocess_fail(api.Message(status));
}

static void release(void *data, size_t length, void *context)
{
  (void)length;
  (void)context;
  free(data);
}

static tf_api_tensor *make_input(int i)
{
  size_t count = 1;
  for (int k = 0; k < ranks[i]; k++)
    count *= (size_t)dims[i][k];
  const size_t size = count * sizeof(float);
  float *data = aligned_alloc(64, (size + 63) / 64 * 64);
  if (data == NULL)
    inprocess_fail("out of memory");
  for (size_t k = 0; k < count; k++)
    data[k] = (float)(k % 17) / 17;
  return api.NewTensor(FLOAT, dims[i], ranks[i], data, size, release, NULL);
}

static void *caller_new(void)
{
  return api.NewStatus();
}

static void run(void *status)
{
  tf_api_tensor *given[MAX_INPUTS], *got = NULL;
  for (int i = 0; i < input_count; i++)
    given[i] = make_input(i);
  api.SessionRun(session, NULL, inputs, given, input_count, &output, &got, 1, NULL, 0, NULL,
                 status);
  check(status);
  for (int i = 0; i < input_count; i++)
    api.DeleteTensor(given[i]);
  api.DeleteTensor(got);
}

static void open_library(const char *path)
{
  void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL), *symbol;
  if (handle == NULL)
    inprocess_fail(dlerror());
#define READ(name, result, arguments)                                                              \
  symbol = dlsym(handle, "TF_" #name);                                                             \
  if (symbol == NULL)                                                                              \
    inprocess_fail("no TF_" #name);                                                                \
  memcpy(&api.name, &symbol, sizeof(symbol));
  TF_API_FUNCTIONS(READ)
#undef READ
}

static tf_api_output find(tf_api_graph *graph, char *name)
{
  char *colon = strrchr(name, ':');
  tf_api_output found = {.index = colon == NULL ? 0 : atoi(colon + 1)};
  if (colon != NULL)
    *colon = '\0';
  found.operation = api.GraphOperationByName(graph, name);
  if (found.operation == NULL)
    inprocess_fail(name);
  return found;
}

static void read_input(tf_api_graph *graph, char *text)
{
  char *at = strchr(text, '=');
  if (at == NULL || input_count == MAX_INPUTS)
    inprocess_fail("expected INPUT=DIMS");
  *at++ = '\0';
  inputs[input_count] = find(graph, text);
  for (char *part = strtok(at, ","); part != NULL; part = strtok(NULL, ","))
    dims[input_count][ranks[input_count]++] = atoi(part);
  input_count++;
}

// As the backend asks for them.
static tf_api_graph *load(const char *folder, unsigned char threads)
{
  // Operators run in the caller's thread (-1), as in the backend.
  const unsigned char config[] = {0x10, threads, 0x28, 0xff, 0xff, 0xff, 0xff, 0xff,
                                  0xff, 0xff,    0xff, 0xff, 0x01, 0x38, 1};
  static const char *const tags[] = {"serve"};
  tf_api_status *status = api.NewStatus();
  tf_api_session_options *options = api.NewSessionOptions();
  tf_api_graph *graph = api.NewGraph();
  api.SetConfig(options, config, sizeof(config), status);
  check(status);
  session = api.LoadSessionFromSavedModel(options, NULL, folder, tags, 1, graph, NULL, status);
  check(status);
  api.DeleteSessionOptions(options);
  api.DeleteStatus(status);
  return graph;
}

int main(int argc, char **argv)
{
  inprocess self = {.caller_new = caller_new, .run = run, .start_ns = clock_monotonic_ns()};
  if (argc < 8)
    inprocess_fail("expected LIBRARY FOLDER CALLERS THREADS SECONDS OUTPUT INPUT=DIMS...");
  open_library(argv[1]);
  self.opened_ns = clock_monotonic_ns();
  tf_api_graph *graph = load(argv[2], (unsigned char)atoi(argv[4]));
  self.loaded_ns = clock_monotonic_ns();
  output = find(graph, argv[6]);
  for (int i = 7; i < argc; i++)
    read_input(graph, argv[i]);
  inprocess_measure(&self, atoi(argv[3]), atoi(argv[5]));
  return 0;
}
