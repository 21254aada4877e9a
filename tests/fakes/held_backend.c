// SPDX-License-Identifier: Apache-2.0
// A backend for tests whose program decides when and how a request is answered (held.h). South seam
// only.
#include "held.h"
#include "triton/core/tritonbackend.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_COUNT 4
#define LARGE_COUNT (128 << 10)

// The front end's thread may execute it (backends/common/backend_extension.h).
const char NEREID_BackendComputes = 1;

typedef struct held {
  struct held *older, *newer;
  TRITONBACKEND_Request *request; // NULL once it is released
  TRITONBACKEND_ResponseFactory *factory;
} held;

static struct {
  pthread_mutex_t mutex;
  held *oldest, *newest;
} all = {PTHREAD_MUTEX_INITIALIZER, NULL, NULL};

static void check(TRITONSERVER_Error *e)
{
  if (e == NULL)
    return;
  fprintf(stderr, "held: %s\n", TRITONSERVER_ErrorMessage(e));
  abort();
}

static void put(held *h)
{
  pthread_mutex_lock(&all.mutex);
  h->older = all.newest;
  h->newer = NULL;
  *(h->older != NULL ? &h->older->newer : &all.oldest) = h;
  all.newest = h;
  pthread_mutex_unlock(&all.mutex);
}

static held *take(bool newest)
{
  pthread_mutex_lock(&all.mutex);
  held *h = newest ? all.newest : all.oldest;
  if (h != NULL) {
    *(h->older != NULL ? &h->older->newer : &all.oldest) = h->newer;
    *(h->newer != NULL ? &h->newer->older : &all.newest) = h->older;
  }
  pthread_mutex_unlock(&all.mutex);
  return h;
}

TRITONSERVER_Error *TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance *instance,
                                                       TRITONBACKEND_Request **requests,
                                                       const uint32_t request_count)
{
  (void)instance;
  for (uint32_t i = 0; i < request_count; i++) {
    held *h = calloc(1, sizeof(*h));
    if (h == NULL)
      abort();
    h->request = requests[i];
    check(TRITONBACKEND_ResponseFactoryNew(&h->factory, h->request));
    put(h);
  }
  return NULL;
}

static void release(held *h)
{
  if (h->request != NULL)
    check(TRITONBACKEND_RequestRelease(h->request, TRITONSERVER_REQUEST_RELEASE_ALL));
  h->request = NULL;
}

// The byte budget may refuse the memory: then the response goes without it.
static void fill(TRITONBACKEND_Response *response, int64_t count)
{
  TRITONBACKEND_Output *output;
  void *memory = NULL;
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  check(TRITONBACKEND_ResponseOutput(response, &output, "OUTPUT0", TRITONSERVER_TYPE_INT64, &count,
                                     1));
  TRITONSERVER_Error *refused =
      TRITONBACKEND_OutputBuffer(output, &memory, (uint64_t)count * sizeof(int64_t), &type, &id);
  if (refused == NULL)
    memset(memory, 7, (size_t)count * sizeof(int64_t));
  TRITONSERVER_ErrorDelete(refused);
}

static void respond(held *h, unsigned how, bool last)
{
  TRITONBACKEND_Response *response;
  TRITONSERVER_Error *failure =
      last && (how & HELD_FAILS) != 0
          ? TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "as was asked for")
          : NULL;
  bool ends = last && (how & (HELD_FINAL_ALONE | HELD_STAYS)) == 0;
  check(TRITONBACKEND_ResponseNewFromFactory(&response, h->factory));
  if (failure == NULL)
    fill(response, (how & HELD_LARGE) != 0 ? LARGE_COUNT : SMALL_COUNT);
  check(TRITONBACKEND_ResponseSend(response, ends ? TRITONSERVER_RESPONSE_COMPLETE_FINAL : 0,
                                   failure));
  TRITONSERVER_ErrorDelete(failure);
}

__attribute__((visibility("default"))) bool held_answer(unsigned how)
{
  held *h = take((how & HELD_NEWEST) != 0);
  unsigned count = how & HELD_RESPONSES;
  if (h == NULL)
    return false;
  if ((how & HELD_RELEASES) != 0)
    release(h);
  for (unsigned i = 0; i < count; i++)
    respond(h, how, i + 1 == count);
  if ((how & HELD_STAYS) != 0) {
    put(h);
    return true;
  }
  if (count == 0 || (how & HELD_FINAL_ALONE) != 0)
    check(TRITONBACKEND_ResponseFactorySendFlags(h->factory, TRITONSERVER_RESPONSE_COMPLETE_FINAL));
  check(TRITONBACKEND_ResponseFactoryDelete(h->factory));
  release(h);
  free(h);
  return true;
}
