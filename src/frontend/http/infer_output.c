// Provides the memory for outputs. Called by the core on whatever thread runs the model, for one
// request by one thread at a time, while the exchange is suspended.
#include "frontend/http/infer.h"

#include "base/blocks.h"
#include "frontend/http/exchange.h"
#include "frontend/http/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_MAX_BYTES 1024 // larger outputs have a block of their own

static const output_choice *choose(const inference *i, const char *name)
{
  for (size_t k = 0; k < i->choice_count; k++)
    if (strcmp(i->choices[k].name, name) == 0)
      return &i->choices[k];
  return &i->fallback;
}

static TRITONSERVER_Error *reserve(exchange *x, output_buffer *output, size_t size)
{
  if (size < BUDGET_LEAST_BYTES)
    return NULL;
  if (!budget_take_work(&x->http->budget, size))
    return TRITONSERVER_ErrorNew(
        TRITONSERVER_ERROR_UNAVAILABLE,
        "the server holds as many bytes of answers as it may, try again later");
  output->reserved = size;
  return NULL;
}

// Triton's text.
static TRITONSERVER_Error *check_span(const output_choice *choice, size_t byte_size)
{
  char text[512];
  if (byte_size <= choice->span->byte_size)
    return NULL;
  snprintf(text, sizeof(text),
           "shared memory size specified with the request for output '%s' (%zu bytes) should be at "
           "least %zu bytes to hold the results",
           choice->name, choice->span->byte_size, byte_size);
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text);
}

// All zeroes: a model that does not fill its output must not show what another client left there.
static void *allocate_memory(const inference *i, output_buffer *output, size_t size)
{
  if (size <= ARENA_MAX_BYTES && !i->decoupled) {
    exchange *x = i->exchange;
    char *memory = arena_allocate_array(&x->arena, 1, size + BLOCK_ALIGNMENT);
    uintptr_t misaligned = (uintptr_t)memory % BLOCK_ALIGNMENT;
    return memory == NULL || misaligned == 0 ? memory : memory + BLOCK_ALIGNMENT - misaligned;
  }
  output->memory = block_allocate_zeroed(size);
  output->size = size;
  return output->memory;
}

// Gives the memory where the output is written; NULL without an error when there is none.
static TRITONSERVER_Error *find_memory(const inference *i, output_buffer *output,
                                       const output_choice *choice, size_t byte_size, void **memory)
{
  TRITONSERVER_Error *refused = NULL;
  if (choice->span != NULL) {
    refused = check_span(choice, byte_size);
    *memory = refused == NULL ? choice->span->base : NULL;
    return refused;
  }
  refused = reserve(i->exchange, output, byte_size);
  if (refused == NULL)
    *memory = allocate_memory(i, output, byte_size);
  return refused;
}

// Does more happen to the output than that it is sent from where it is?
static bool is_converted(const exchange *x, const output_choice *choice)
{
  return choice->span == NULL &&
         (!choice->binary || choice->classification > 0 || x->headers.accepts != CODING_IDENTITY);
}

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator,
                                    const char *tensor_name, size_t byte_size,
                                    TRITONSERVER_MemoryType preferred_type, int64_t preferred_id,
                                    void *inference_pointer, void **buffer, void **buffer_userp,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id)
{
  (void)allocator;
  (void)preferred_type;
  (void)preferred_id;
  inference *i = inference_pointer;
  // What comes again and again, maybe from several threads, must not pile up in the arena.
  output_buffer *output = i->decoupled
                              ? calloc(1, sizeof(*output))
                              : arena_allocate_array(&i->exchange->arena, 1, sizeof(*output));
  const output_choice *choice = choose(i, tensor_name);
  void *memory = NULL;
  TRITONSERVER_Error *refused =
      output == NULL ? NULL : find_memory(i, output, choice, byte_size, &memory);
  if (memory == NULL) {
    if (output != NULL)
      budget_give_back(&i->exchange->http->budget, output->reserved);
    if (i->decoupled)
      free(output);
    return refused != NULL ? refused
                           : TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE,
                                                   "out of memory for an output");
  }
  output->choice = choice;
  if (is_converted(i->exchange, choice))
    atomic_fetch_add_explicit(&i->text_bytes, byte_size, memory_order_relaxed);
  output->separate = i->decoupled;
  output->exchange = i->exchange;
  exchange_ref(i->exchange); // a backend may keep a response longer than its request
  *buffer = byte_size == 0 ? NULL : memory;
  *buffer_userp = output;
  *actual_type = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *buffer,
                                   void *buffer_userp, size_t byte_size,
                                   TRITONSERVER_MemoryType type, int64_t id)
{
  (void)allocator;
  (void)buffer;
  (void)byte_size;
  (void)type;
  (void)id;
  output_buffer *output = buffer_userp;
  exchange *x = output->exchange;
  block_free(output->memory, output->size);
  if (output->reserved > 0)
    budget_give_back(&x->http->budget, output->reserved);
  if (output->separate)
    free(output);
  exchange_unref(x); // and with it `output`, when that is in its arena
  return NULL;
}

static TRITONSERVER_Error *query(TRITONSERVER_ResponseAllocator *allocator, void *inference_pointer,
                                 const char *tensor_name, size_t *byte_size,
                                 TRITONSERVER_MemoryType *type, int64_t *id)
{
  (void)allocator;
  (void)inference_pointer;
  (void)tensor_name;
  (void)byte_size;
  *type = TRITONSERVER_MEMORY_CPU;
  *id = 0;
  return NULL;
}

error *infer_make_allocator(TRITONSERVER_ResponseAllocator **allocator)
{
  TRITONSERVER_Error *failure =
      TRITONSERVER_ResponseAllocatorNew(allocator, allocate, release, NULL);
  if (failure == NULL)
    failure = TRITONSERVER_ResponseAllocatorSetQueryFunction(*allocator, query);
  if (failure == NULL)
    return NULL;
  error *result = error_new((error_code)TRITONSERVER_ErrorCode(failure), "%s",
                            TRITONSERVER_ErrorMessage(failure));
  TRITONSERVER_ErrorDelete(failure);
  return result;
}
