// SPDX-License-Identifier: Apache-2.0
// The shared object of a package of PyTorch's (.pt2) whose weights are a file of their own. The
// model's output is its input, if the weights are there: tests/e2e/frameworks/test_pytorch.py. It
// calls nothing of PyTorch's.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WEIGHT_BYTES 10000 // byte i is 7 * i

typedef struct container {
  const uint8_t *weights;
} container;

static char last_error[128];

int32_t AOTInductorModelContainerCreateWithDevice(container **made, size_t models,
                                                  const char *device, const char *cubin_dir);
int32_t AOTInductorModelContainerDelete(container *self);
int32_t AOTInductorModelContainerGetNumInputs(container *self, size_t *count);
int32_t AOTInductorModelContainerGetNumOutputs(container *self, size_t *count);
int32_t AOTInductorModelContainerGetCallSpec(container *self, const char **in, const char **out);
int32_t AOTInductorGetLastError(const char **text);
int32_t AOTInductorModelContainerGetConstantsBlobSize(container *self, uint64_t *size);
int32_t AOTInductorModelUpdateConstantsFromBlob(container *self, const uint8_t *weights);
int32_t AOTInductorModelContainerRun(container *self, void **inputs_taken, size_t input_count,
                                     void **outputs, size_t output_count, void *stream,
                                     void *proxy);

int32_t AOTInductorModelContainerCreateWithDevice(container **made, size_t models,
                                                  const char *device, const char *cubin_dir)
{
  (void)device, (void)cubin_dir;
  *made = models > 0 ? calloc(1, sizeof(**made)) : NULL;
  return *made == NULL;
}

int32_t AOTInductorModelContainerDelete(container *self)
{
  free(self);
  return 0;
}

int32_t AOTInductorModelContainerGetNumInputs(container *self, size_t *count)
{
  (void)self;
  *count = 1;
  return 0;
}

int32_t AOTInductorModelContainerGetNumOutputs(container *self, size_t *count)
{
  return AOTInductorModelContainerGetNumInputs(self, count);
}

int32_t AOTInductorModelContainerGetCallSpec(container *self, const char **in, const char **out)
{
  (void)self;
  *in = "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": "
        "\"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, "
        "\"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": "
        "\"[]\", \"children_spec\": []}]}]";
  *out = "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]";
  return 0;
}

int32_t AOTInductorGetLastError(const char **text)
{
  *text = last_error;
  return 0;
}

#ifndef WITHOUT_WEIGHTS
int32_t AOTInductorModelContainerGetConstantsBlobSize(container *self, uint64_t *size)
{
  (void)self;
  *size = WEIGHT_BYTES;
  return 0;
}

int32_t AOTInductorModelUpdateConstantsFromBlob(container *self, const uint8_t *weights)
{
  self->weights = weights;
  if (weights[0] == 0)
    return 0;
  snprintf(last_error, sizeof(last_error), "the first weight is %d", weights[0]);
  return 1;
}
#endif

int32_t AOTInductorModelContainerRun(container *self, void **inputs_taken, size_t input_count,
                                     void **outputs, size_t output_count, void *stream, void *proxy)
{
  (void)input_count, (void)output_count, (void)stream, (void)proxy;
  for (size_t i = 0; self->weights != NULL && i < WEIGHT_BYTES; i++) {
    if (self->weights[i] != (uint8_t)(7 * i)) {
      snprintf(last_error, sizeof(last_error), "weight %zu is %d", i, self->weights[i]);
      return 1;
    }
  }
  outputs[0] = inputs_taken[0];
  inputs_taken[0] = NULL;
  return 0;
}
