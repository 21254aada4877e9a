// SPDX-License-Identifier: Apache-2.0
// OpenVINO without a server: what the openvino backend is measured against; see inprocess.h.
//
//   inprocess_openvino LIBRARY MODEL CALLERS THREADS STREAMS SECONDS DIMS
//
// MODEL has one input, of FP32, and DIMS is its shape as 1,64.
#include "inprocess.h"

#include "base/clock.h"
#include "ov_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ov_api api;
static ov_core *core;
static ov_compiled_model *compiled;
static int element; // FP32, as the library counts
static int64_t dims[8];
static ov_shape shape = {.dims = dims};
static size_t count = 1;

static void check(int status)
{
  if (status != 0)
    inprocess_fail(api.get_last_err_msg());
}

static void open_library(const char *path)
{
  void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL), *symbol;
  if (handle == NULL)
    inprocess_fail(dlerror());
#define READ(name, result, arguments)                                                              \
  symbol = dlsym(handle, "ov_" #name);                                                             \
  if (symbol == NULL)                                                                              \
    inprocess_fail("no ov_" #name);                                                                \
  memcpy(&api.name, &symbol, sizeof(symbol));
  OV_FUNCTIONS(READ)
#undef READ
}

static void load(const char *path, const char *threads, const char *streams)
{
  ov_model *model = NULL;
  ov_port *port = NULL;
  check(api.core_create(&core));
  check(api.core_read_model(core, path, NULL, &model));
  check(api.model_const_input_by_index(model, 0, &port));
  check(api.port_get_element_type(port, &element));
  check(api.core_compile_model(core, model, "CPU", 6, &compiled, "INFERENCE_NUM_THREADS", threads,
                               "NUM_STREAMS", streams, "INFERENCE_PRECISION_HINT", "f32"));
  api.output_const_port_free(port);
  api.model_free(model);
}

static void read_dims(char *text)
{
  for (char *part = strtok(text, ","); part != NULL && shape.rank < 8; part = strtok(NULL, ",")) {
    dims[shape.rank++] = atoi(part);
    count *= (size_t)atoi(part);
  }
}

typedef struct caller {
  ov_infer_request *request;
  float *data;
} caller;

static void *caller_new(void)
{
  caller *self = calloc(1, sizeof(*self));
  float *data = malloc(count * sizeof(*data));
  if (self == NULL || data == NULL)
    inprocess_fail("out of memory");
  for (size_t i = 0; i < count; i++)
    data[i] = (float)(i % 17) / 17;
  self->data = data;
  check(api.compiled_model_create_infer_request(compiled, &self->request));
  return self;
}

// As the backend does it: with a tensor made anew, and started and awaited.
static void run(void *state)
{
  const caller *self = state;
  ov_tensor *input = NULL;
  check(api.tensor_create_from_host_ptr(element, shape, self->data, &input));
  check(api.infer_request_set_input_tensor_by_index(self->request, 0, input));
  api.tensor_free(input);
  check(api.infer_request_start_async(self->request));
  check(api.infer_request_wait(self->request));
}

int main(int argc, char **argv)
{
  inprocess self = {.caller_new = caller_new, .run = run, .start_ns = clock_monotonic_ns()};
  if (argc != 8)
    inprocess_fail("expected LIBRARY MODEL CALLERS THREADS STREAMS SECONDS DIMS");
  open_library(argv[1]);
  self.opened_ns = clock_monotonic_ns();
  load(argv[2], argv[4], argv[5]);
  self.loaded_ns = clock_monotonic_ns();
  read_dims(argv[7]);
  inprocess_measure(&self, atoi(argv[3]), atoi(argv[6]));
  return 0;
}
