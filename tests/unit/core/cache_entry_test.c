// SPDX-License-Identifier: Apache-2.0
// A response packed for a cache and read back; entries that are damaged at each of their bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/cache_entry.h"
#include "request/response_allocator.h"

#include <stdlib.h>
#include <string.h>

typedef struct fixture {
  request_target target;
  response_factory *factory;
  struct TRITONSERVER_ResponseAllocator allocator;
  int allocated, freed;
} fixture;

static void nothing(request_target *target)
{
  (void)target;
}

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator, const char *name,
                                    size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                    void *context, void **buffer, void **buffer_context,
                                    TRITONSERVER_MemoryType *actual, int64_t *actual_id)
{
  (void)allocator, (void)name, (void)type, (void)id, (void)buffer_context;
  ((fixture *)context)->allocated++;
  *buffer = size == 0 ? NULL : malloc(size);
  *actual = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return NULL;
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *buffer,
                                   void *buffer_context, size_t size, TRITONSERVER_MemoryType type,
                                   int64_t id)
{
  (void)buffer_context, (void)size, (void)type, (void)id;
  fixture *f = container_of(allocator, fixture, allocator);
  f->freed++;
  free(buffer);
  return NULL;
}

static fixture *make_fixture(void)
{
  fixture *f = calloc(1, sizeof(*f));
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  assert_null(config_read_text(
      SLICE("name: 'm' backend: 'b' "
            "output [{name: 'A' data_type: TYPE_FP32 dims: [-1]}, "
            "{name: 'B' data_type: TYPE_STRING dims: [-1] reshape {shape: [-1, 1]}}]"),
      "test", &config));
  assert_null(signature_init(&f->target.signature, config));
  f->target.name = "m";
  f->target.unreferenced = nothing;
  refcount_init(&f->target.references);
  f->factory = response_factory_new(&f->target, SLICE("id"));
  f->allocator = (struct TRITONSERVER_ResponseAllocator){.allocate = allocate, .release = release};
  f->factory->allocator = &f->allocator;
  f->factory->allocator_context = f;
  return f;
}

static void free_fixture(fixture *f)
{
  response_factory_unref(f->factory);
  assert_int_equal(f->allocated, f->freed);
  signature_fini(&f->target.signature);
  free(f);
}

static response *new_response(fixture *f)
{
  response *r;
  assert_null(response_new(f->factory, &r));
  return r;
}

static void add(response *r, const char *name, TRITONSERVER_DataType type, const int64_t *dims,
                uint32_t count, const void *data, size_t size)
{
  response_output *output;
  void *buffer;
  int64_t id = 0;
  TRITONSERVER_MemoryType place = TRITONSERVER_MEMORY_CPU;
  assert_null(response_add_output(r, name, type, dims, count, &output));
  assert_null(response_output_allocate(output, size, &place, &id, &buffer));
  if (size > 0)
    memcpy(buffer, data, size);
}

static const float numbers[] = {1, 2.5f, -3};
static const char strings[] = "\3\0\0\0abc\0\0\0\0";

static response *full_response(fixture *f)
{
  response *r = new_response(f);
  add(r, "A", TRITONSERVER_TYPE_FP32, (int64_t[]){3}, 1, numbers, sizeof(numbers));
  add(r, "B", TRITONSERVER_TYPE_BYTES, (int64_t[]){2, 1}, 2, strings, sizeof(strings) - 1);
  assert_null(response_set_parameter(r, "text", parameter_of_string("as said")));
  assert_null(response_set_parameter(r, "number", parameter_of_int(-7)));
  assert_null(response_set_parameter(r, "flag", parameter_of_bool(true)));
  assert_null(response_set_parameter(r, "real", parameter_of_double(0.5)));
  return r;
}

// For free().
static char *pack(const response *r, size_t *size)
{
  cache_entry entry = {.count = 1};
  assert_true(cache_entry_size(r, &entry.buffers[0].size));
  entry.buffers[0].base = malloc(entry.buffers[0].size);
  assert_null(cache_entry_write(r, &entry));
  *size = entry.buffers[0].size;
  return entry.buffers[0].base;
}

static error *unpack(response *r, const char *data, size_t size)
{
  char *copy = malloc(size == 0 ? 1 : size); // a sanitizer sees its end
  memcpy(copy, data, size);
  const cache_entry entry = {.buffers = {{copy, size}}, .count = 1};
  error *e = cache_entry_read(&entry, r);
  free(copy);
  return e;
}

static void what_was_packed_is_read_back(void **state)
{
  (void)state;
  size_t size;
  fixture *f = make_fixture();
  response *r = full_response(f), *again = new_response(f);
  char *packed = pack(r, &size);
  assert_null(unpack(again, packed, size));
  assert_int_equal(again->output_count, 2);
  const response_output *a = again->outputs, *b = a->next;
  assert_string_equal(a->name.data, "A");
  assert_int_equal(a->datatype, TRITONSERVER_TYPE_FP32);
  assert_int_equal(a->dim_count, 1);
  assert_int_equal(a->dims[0], 3);
  assert_memory_equal(a->buffer, numbers, sizeof(numbers));
  assert_int_equal(b->dim_count, 1); // as the client saw it, whatever the model reshapes
  assert_int_equal(b->dims[0], 2);
  assert_int_equal(b->attributes.byte_size, sizeof(strings) - 1);
  assert_memory_equal(b->buffer, strings, sizeof(strings) - 1);
  assert_int_equal(again->parameter_count, 4);
  assert_string_equal(again->parameters[0].value.string, "as said");
  assert_int_equal(again->parameters[1].value.integer, -7);
  assert_true(again->parameters[2].value.boolean);
  assert_true(again->parameters[3].value.real == 0.5);
  free(packed);
  response_free(r);
  response_free(again);
  free_fixture(f);
}

// Written down byte by byte, from Triton's sources.
static void the_layout_is_tritons(void **state)
{
  (void)state;
  static const char expected[] = "\1\0\0\0"                  // outputs
                                 "\x2d\0\0\0\0\0\0\0"        // bytes of the first
                                 "\1\0\0\0A\4\0\0\0FP32"     // name, datatype
                                 "\x8\0\0\0\3\0\0\0\0\0\0\0" // shape
                                 "\xc\0\0\0\0\0\0\0"         // data
                                 "\0\0\x80\x3f\0\0\x20\x40\0\0\x40\xc0";
  size_t size;
  fixture *f = make_fixture();
  response *r = new_response(f);
  add(r, "A", TRITONSERVER_TYPE_FP32, (int64_t[]){3}, 1, numbers, sizeof(numbers));
  char *packed = pack(r, &size);
  assert_int_equal(size, sizeof(expected) - 1);
  assert_memory_equal(packed, expected, size);
  free(packed);
  response_free(r);
  free_fixture(f);
}

static void empty_answers_are_kept_too(void **state)
{
  (void)state;
  size_t size;
  fixture *f = make_fixture();
  response *none = new_response(f), *zero = new_response(f), *again = new_response(f);
  char *packed = pack(none, &size);
  assert_int_equal(size, 4);
  assert_null(unpack(again, packed, size));
  assert_int_equal(again->output_count, 0);
  free(packed);
  add(zero, "A", TRITONSERVER_TYPE_FP32, (int64_t[]){0}, 1, NULL, 0);
  packed = pack(zero, &size);
  assert_null(unpack(again, packed, size));
  assert_int_equal(again->outputs->dims[0], 0);
  free(packed);
  response_free(none);
  response_free(zero);
  response_free(again);
  free_fixture(f);
}

static void what_is_not_whole_is_refused_before_anything_is_allocated(void **state)
{
  (void)state;
  size_t size;
  fixture *f = make_fixture();
  response *r = full_response(f);
  int before = f->allocated;
  char *packed = pack(r, &size);
  size_t behind_outputs = 4 + 8 + 0x2d + 8 + (4 + 1) + (4 + 5) + (4 + 8) + (8 + 11);
  for (size_t cut = 0; cut < size; cut++) {
    response *again = new_response(f);
    error *e = unpack(again, packed, cut);
    if (cut == behind_outputs) { // Triton's entries end here
      assert_null(e);
      before += 2;
    } else {
      assert_non_null(e);
      assert_int_equal(error_get_code(e), ERROR_INTERNAL);
    }
    error_free(e);
    response_free(again);
    assert_int_equal(f->allocated, before);
  }
  free(packed);
  response_free(r);
  free_fixture(f);
}

// Whatever one byte becomes, the entry is refused or is an answer that the model may give.
static void damage_at_each_byte_is_harmless(void **state)
{
  (void)state;
  size_t size;
  fixture *f = make_fixture();
  response *r = full_response(f);
  char *packed = pack(r, &size);
  for (size_t at = 0; at < size; at++) {
    for (int bit = 0; bit < 8; bit++) {
      response *again = new_response(f);
      packed[at] ^= (char)(1 << bit);
      error *e = unpack(again, packed, size);
      if (e == NULL)
        assert_true(again->output_count <= 2);
      error_free(e);
      response_free(again);
      packed[at] ^= (char)(1 << bit);
    }
  }
  free(packed);
  response_free(r);
  free_fixture(f);
}

static void assert_refused(fixture *f, const char *data, size_t size, const char *why)
{
  response *r = new_response(f);
  error *e = unpack(r, data, size);
  assert_non_null(e);
  if (strstr(error_message(e), why) == NULL)
    fail_msg("'%s' is not in '%s'", why, error_message(e));
  error_free(e);
  response_free(r);
}

#define REFUSED(f, literal, why) assert_refused(f, literal, sizeof(literal) - 1, why)

static void each_reason_is_told(void **state)
{
  (void)state;
  fixture *f = make_fixture();
  REFUSED(f, "\3\0\0\0", "a wrong number of outputs");
  REFUSED(
      f, "\1\0\0\0\x29\0\0\0\0\0\0\0\1\0\0\0C\4\0\0\0FP32\x8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
      "cut off");
  REFUSED(
      f, "\1\0\0\0\x21\0\0\0\0\0\0\0\1\0\0\0C\4\0\0\0FP32\x8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
      "that the model has not");
  REFUSED(
      f, "\1\0\0\0\x21\0\0\0\0\0\0\0\1\0\0\0A\4\0\0\0FP99\x8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
      "an unknown datatype");
  REFUSED(f,
          "\1\0\0\0\x21\0\0\0\0\0\0\0\1\0\0\0A\4\0\0\0FP32\x8\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"
          "\0\0\0\0\0\0\0\0",
          "without a valid shape");
  REFUSED(
      f, "\1\0\0\0\x21\0\0\0\0\0\0\0\1\0\0\0A\4\0\0\0FP32\x8\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
      "size is not that of its shape");
  REFUSED(f,
          "\1\0\0\0\x21\0\0\0\0\0\0\0\1\0\0\0A\4\0\0\0FP32\x8\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
          "\1\0\0\0\1\0\0\0p\7\0\0\0\0\0\0\0\0\0\0\0",
          "a wrong type or size");
  const cache_entry two = {.count = 2};
  response *r = new_response(f);
  error *e = cache_entry_read(&two, r);
  assert_non_null(e);
  error_free(e);
  response_free(r);
  free_fixture(f);
}

static void what_cannot_be_kept_is_told(void **state)
{
  (void)state;
  size_t size;
  response_output *output;
  fixture *f = make_fixture();
  response *unfilled = new_response(f), *elsewhere = new_response(f);
  assert_null(
      response_add_output(unfilled, "A", TRITONSERVER_TYPE_FP32, (int64_t[]){1}, 1, &output));
  assert_false(cache_entry_size(unfilled, &size));
  add(elsewhere, "A", TRITONSERVER_TYPE_FP32, (int64_t[]){3}, 1, numbers, sizeof(numbers));
  elsewhere->outputs->attributes.memory_type = TRITONSERVER_MEMORY_GPU;
  assert_false(cache_entry_size(elsewhere, &size));
  elsewhere->outputs->attributes.memory_type = TRITONSERVER_MEMORY_CPU;
  char small[8];
  const cache_entry entry = {.buffers = {{small, sizeof(small)}}, .count = 1};
  error *e = cache_entry_write(elsewhere, &entry); // less than it asked for
  assert_non_null(e);
  error_free(e);
  response_free(unfilled);
  response_free(elsewhere);
  free_fixture(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_was_packed_is_read_back),
      cmocka_unit_test(the_layout_is_tritons),
      cmocka_unit_test(empty_answers_are_kept_too),
      cmocka_unit_test(what_is_not_whole_is_refused_before_anything_is_allocated),
      cmocka_unit_test(damage_at_each_byte_is_harmless),
      cmocka_unit_test(each_reason_is_told),
      cmocka_unit_test(what_cannot_be_kept_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
