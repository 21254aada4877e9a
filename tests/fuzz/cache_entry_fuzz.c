// SPDX-License-Identifier: Apache-2.0
// Any bytes as a cache's entry for a model with three outputs. What is refused has allocated
// nothing; what is read is as the model may answer, and packs to an entry that reads to the same.
#include "core/cache_entry.h"
#include "fuzz.h"
#include "request/response_allocator.h"

static int allocated;

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator, const char *name,
                                    size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                    void *context, void **buffer, void **buffer_context,
                                    TRITONSERVER_MemoryType *actual, int64_t *actual_id)
{
  (void)allocator, (void)name, (void)context, (void)buffer_context;
  allocated++;
  *buffer = malloc(size);
  *actual = type;
  *actual_id = id;
  return NULL;
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *buffer,
                                   void *buffer_context, size_t size, TRITONSERVER_MemoryType type,
                                   int64_t id)
{
  (void)allocator, (void)buffer_context, (void)size, (void)type, (void)id;
  allocated--;
  free(buffer);
  return NULL;
}

static void unreferenced(request_target *target)
{
  (void)target; // it stays
}

static response_factory *factory(void)
{
  static request_target target;
  static struct TRITONSERVER_ResponseAllocator allocator = {.allocate = allocate,
                                                            .release = release};
  if (target.name == NULL) {
    Inference__ModelConfig *config;
    CHECK(config_read_text(SLICE("name: 'm' backend: 'b' output ["
                                 "{name: 'A' data_type: TYPE_FP32 dims: [-1]}, "
                                 "{name: 'B' data_type: TYPE_STRING dims: [-1]}, "
                                 "{name: 'C' data_type: TYPE_BOOL dims: [-1, -1]}]"),
                           "fuzz", &config) == NULL);
    CHECK(signature_init(&target.signature, config) == NULL);
    config_free(config);
    target.name = "m";
    target.unreferenced = unreferenced;
    refcount_init(&target.references);
  }
  response_factory *f = response_factory_new(&target, SLICE("id"));
  CHECK(f != NULL);
  f->allocator = &allocator;
  return f;
}

static void check_output(const response_output *a, const response_output *b)
{
  int64_t elements;
  CHECK(slice_equal(a->name, b->name) && a->datatype == b->datatype);
  CHECK(a->dim_count == b->dim_count &&
        (a->dim_count == 0 || memcmp(a->dims, b->dims, a->dim_count * sizeof(int64_t)) == 0));
  CHECK(
      a->attributes.byte_size == b->attributes.byte_size &&
      (a->attributes.byte_size == 0 || memcmp(a->buffer, b->buffer, a->attributes.byte_size) == 0));
  CHECK(shape_element_count(a->dims, a->dim_count, &elements));
  if (a->datatype != TRITONSERVER_TYPE_BYTES)
    CHECK((size_t)elements * datatype_byte_size(a->datatype) == a->attributes.byte_size);
}

static void check_again(response_factory *f, const response *r)
{
  response *again;
  cache_entry entry = {.count = 1};
  CHECK(cache_entry_size(r, &entry.buffers[0].size));
  entry.buffers[0].base = malloc(entry.buffers[0].size);
  CHECK(entry.buffers[0].base != NULL && cache_entry_write(r, &entry) == NULL);
  CHECK(response_new(f, &again) == NULL);
  CHECK(cache_entry_read(&entry, again) == NULL);
  CHECK(again->output_count == r->output_count && again->parameter_count == r->parameter_count);
  const response_output *b = again->outputs;
  for (const response_output *a = r->outputs; a != NULL; a = a->next, b = b->next)
    check_output(a, b);
  for (uint32_t i = 0; i < r->parameter_count; i++)
    CHECK(strcmp(r->parameters[i].name, again->parameters[i].name) == 0 &&
          r->parameters[i].type == again->parameters[i].type);
  response_free(again);
  free(entry.buffers[0].base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  response *r;
  response_factory *f = factory();
  char *copy = malloc(size == 0 ? 1 : size); // a sanitizer sees its end
  CHECK(copy != NULL);
  if (size > 0)
    memcpy(copy, data, size);
  const cache_entry entry = {.buffers = {{copy, size}}, .count = 1};
  CHECK(response_new(f, &r) == NULL);
  error *e = cache_entry_read(&entry, r);
  if (e == NULL)
    check_again(f, r);
  else
    CHECK(error_get_code(e) == ERROR_INTERNAL && allocated == 0);
  error_free(e);
  response_free(r);
  response_factory_unref(f);
  CHECK(allocated == 0);
  free(copy);
  return 0;
}
