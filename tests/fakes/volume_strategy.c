// SPDX-License-Identifier: Apache-2.0
// A custom batching library as somebody else would write it: a batch takes requests as long as the
// bytes of their inputs are at most what the model's parameter MAX_BATCH_VOLUME_BYTES says. With
// the parameter CALLS it writes each call to that file, a line each. FAIL names a function that
// fails. The macro WITHOUT_FINALIZE leaves one function out.
#include "triton/core/tritonbackend.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct TRITONBACKEND_Batcher {
  uint64_t limit;
  FILE *calls; // NULL: nobody asks
  char fail[32];
};

typedef struct volume {
  const TRITONBACKEND_Batcher *batcher;
  uint64_t left;
} volume;

#define TELL(batcher, ...)                                                                         \
  do {                                                                                             \
    if ((batcher)->calls != NULL) {                                                                \
      fprintf((batcher)->calls, __VA_ARGS__);                                                      \
      fflush((batcher)->calls);                                                                    \
    }                                                                                              \
  } while (0)

static TRITONSERVER_Error *fail_if(const TRITONBACKEND_Batcher *b, const char *function)
{
  return strcmp(b->fail, function) == 0
             ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "Failure test case")
             : NULL;
}

static const char *parameter(const json_t *config, const char *name)
{
  const json_t *found = json_object_get(json_object_get(config, "parameters"), name);
  const char *text = json_string_value(json_object_get(found, "string_value"));
  return text == NULL ? "" : text;
}

static void read_parameters(TRITONBACKEND_Batcher *b, const json_t *config)
{
  const char *calls = parameter(config, "CALLS");
  b->limit = strtoull(parameter(config, "MAX_BATCH_VOLUME_BYTES"), NULL, 10);
  b->calls = *calls == '\0' ? NULL : fopen(calls, "ae");
  snprintf(b->fail, sizeof(b->fail), "%s", parameter(config, "FAIL"));
}

static TRITONSERVER_Error *free_batcher(TRITONBACKEND_Batcher *b, TRITONSERVER_Error *error)
{
  if (b->calls != NULL)
    fclose(b->calls);
  free(b);
  return error;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatcherInitialize(TRITONBACKEND_Batcher **batcher,
                                                         TRITONBACKEND_Model *model)
{
  TRITONSERVER_Message *message;
  const char *text;
  size_t size;
  TRITONSERVER_Error *error = TRITONBACKEND_ModelConfig(model, 1, &message);
  if (error != NULL)
    return error;
  error = TRITONSERVER_MessageSerializeToJson(message, &text, &size);
  json_t *config = error == NULL ? json_loadb(text, size, 0, NULL) : NULL;
  TRITONSERVER_MessageDelete(message);
  if (error != NULL)
    return error;
  TRITONBACKEND_Batcher *b = calloc(1, sizeof(*b));
  if (b == NULL || config == NULL) {
    json_decref(config);
    free(b);
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory");
  }
  read_parameters(b, config);
  json_decref(config);
  TELL(b, "batcher_initialize\n");
  error = fail_if(b, "batcher");
  if (error != NULL)
    return free_batcher(b, error);
  *batcher = b;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatcherFinalize(TRITONBACKEND_Batcher *batcher)
{
  if (batcher == NULL) // Triton finalizes what was not initialized
    return NULL;
  TELL(batcher, "batcher_finalize\n");
  return free_batcher(batcher, fail_if(batcher, "batcher_finalize"));
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatchInitialize(const TRITONBACKEND_Batcher *batcher,
                                                       void **userp)
{
  volume *v = calloc(1, sizeof(*v));
  if (v == NULL)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory");
  *v = (volume){batcher, batcher->limit};
  TELL(batcher, "initialize\n");
  *userp = v;
  return fail_if(batcher, "initialize");
}

TRITONSERVER_Error *TRITONBACKEND_ModelBatchIncludeRequest(TRITONBACKEND_Request *request,
                                                           void *userp, bool *should_include)
{
  volume *v = userp;
  if (v == NULL) // it could not be initialized
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no memory");
  const char *id = "";
  uint64_t bytes = 0;
  uint32_t count = 0;
  TRITONSERVER_Error *error = TRITONBACKEND_RequestId(request, &id);
  if (error == NULL)
    error = TRITONBACKEND_RequestInputCount(request, &count);
  for (uint32_t i = 0; error == NULL && i < count; i++) {
    TRITONBACKEND_Input *input;
    uint64_t size = 0;
    error = TRITONBACKEND_RequestInputByIndex(request, i, &input);
    if (error == NULL)
      error = TRITONBACKEND_InputProperties(input, NULL, NULL, NULL, NULL, &size, NULL);
    bytes += size;
  }
  *should_include = bytes <= v->left;
  v->left -= *should_include ? bytes : 0;
  TELL(v->batcher, "include %s %s\n", id, *should_include ? "yes" : "no");
  return error != NULL ? error : fail_if(v->batcher, "include");
}

#ifndef WITHOUT_FINALIZE
TRITONSERVER_Error *TRITONBACKEND_ModelBatchFinalize(void *userp)
{
  volume *v = userp;
  TRITONSERVER_Error *error = fail_if(v->batcher, "finalize");
  TELL(v->batcher, "finalize\n");
  free(v);
  return error;
}
#endif
