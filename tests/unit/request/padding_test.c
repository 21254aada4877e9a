// SPDX-License-Identifier: Apache-2.0
// Variable shapes: what the parameters say, the copying against a naive one for random shapes, and
// whole requests: padded, given back, answered.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "errors.h"
#include "request/padding.h"
#include "request/padding_runs.h"
#include "request/response_allocator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                      \
  "name: \"m\" backend: \"b\" max_batch_size: 8 "                                                  \
  "input { name: \"X\" data_type: TYPE_FP32 dims: [ -1, 2 ] } "                                    \
  "input { name: \"ids:0\" data_type: TYPE_UINT8 dims: [ -1 ] optional: true } "                   \
  "input { name: \"N\" data_type: TYPE_INT32 dims: [ 1 ] optional: true } "                        \
  "input { name: \"two\" data_type: TYPE_INT64 dims: [ -1, -1 ] optional: true } "                 \
  "input { name: \"S\" data_type: TYPE_STRING dims: [ -1 ] optional: true } "                      \
  "output { name: \"Y\" data_type: TYPE_FP32 dims: [ -1, 2 ] } "                                   \
  "output { name: \"Z\" data_type: TYPE_FP32 dims: [ 1 ] } "

#define PARAMETER(key, value)                                                                      \
  "parameters { key: \"" key "\" value { string_value: \"" value "\" } } "

static Inference__ModelConfig *read_config(const char *more)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  Inference__ModelConfig *config = NULL;
  buffer_append_text(&text, MODEL);
  buffer_append_text(&text, more);
  assert_taken(config_read_text(buffer_view(&text), "test", &config));
  return config;
}

// ---- parameters ----

static const struct {
  const char *parameters, *parameter, *words;
} mistakes[] = {
    {PARAMETER("padding", "Q"), "padding",
     "invalid value 'Q': 'Q' is no input of the model, expected <input>"},
    {PARAMETER("padding", ""), "padding", "'' is no input of the model"},
    {PARAMETER("padding", "X,"), "padding", "'' is no input of the model"},
    {PARAMETER("padding", "X:1"), "padding", "'1' is no variable dimension of input 'X'"},
    {PARAMETER("padding", "X:2"), "padding", "'2' is no variable dimension of input 'X'"},
    {PARAMETER("padding", "X:-1"), "padding", "'-1' is no variable dimension of input 'X'"},
    {PARAMETER("padding", "N"), "padding", "input 'N' has 0 variable dimensions"},
    {PARAMETER("padding", "two"), "padding", "input 'two' has 2 variable dimensions"},
    {PARAMETER("padding", "S"), "padding", "input 'S' has elements without a fixed size"},
    {PARAMETER("padding", "X=one"), "padding", "'one' is no TYPE_FP32"},
    {PARAMETER("padding", "ids:0=256"), "padding", "'256' is no TYPE_UINT8"},
    {PARAMETER("padding", "ids:0=-1"), "padding", "'-1' is no TYPE_UINT8"},
    {PARAMETER("padding", "X, X"), "padding", "'X' is there twice"},
    {PARAMETER("padding_to", "8"), "padding_to",
     "nothing is padded, expected the parameter 'padding' beside it"},
    {PARAMETER("padding", "X") PARAMETER("padding_to", "0"), "padding_to",
     "'0' is no positive number"},
    {PARAMETER("padding", "X") PARAMETER("padding_to", "many"), "padding_to",
     "'many' is no positive number"},
    {PARAMETER("padding", "X") PARAMETER("padding_to", "4, 8"), "padding_to",
     "several numbers without brackets"},
    {PARAMETER("padding", "X") PARAMETER("padding_to", "[]"), "padding_to",
     "'' is no positive number"},
    {PARAMETER("padding", "X") PARAMETER("padding_to", "[8, 8]"), "padding_to",
     "8 stands behind 8"},
    {PARAMETER("padding", "X") PARAMETER("padding_to", "[9999999999999999999]"), "padding_to",
     "is no positive number"},
    {PARAMETER("padding", "X") PARAMETER("padding_length", ""), "padding_length", "it is empty"},
    {PARAMETER("padding", "X") PARAMETER("padding_length", "two"), "padding_length",
     "another kind of tensor"},
    {PARAMETER("padding", "X") PARAMETER("padding_length", "X"), "padding_length",
     "another kind of tensor"},
    {PARAMETER("padding", "X") PARAMETER("padding_outputs", "X"), "padding_outputs",
     "'X' is no output of the model"},
    {PARAMETER("padding", "X") PARAMETER("padding_outputs", "Z"), "padding_outputs",
     "output 'Z' has 0 variable dimensions"},
};

static void each_mistake_is_named(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
    AUTO_CONFIG Inference__ModelConfig *config = read_config(mistakes[i].parameters);
    padding_config *p;
    const char *parameter;
    error *e = padding_config_read(config, &p, &parameter);
    if (e == NULL)
      fail_msg("taken: %s", mistakes[i].parameters);
    assert_refused(e, ERROR_INVALID_ARG, mistakes[i].words);
    assert_string_equal(parameter, mistakes[i].parameter);
    assert_null(p);
  }
}

static padding_config *read_padding(const char *parameters)
{
  AUTO_CONFIG Inference__ModelConfig *config = read_config(parameters);
  padding_config *p;
  const char *parameter;
  assert_taken(padding_config_read(config, &p, &parameter));
  return p;
}

static void parameters_say_what_is_padded(void **state)
{
  (void)state;
  assert_null(read_padding(""));
  padding_config *p = read_padding(PARAMETER("padding", "two:1=-5, ids:0=255 , X:0=1.5") PARAMETER(
      "padding_length", "N") PARAMETER("padding_outputs", "Y"));
  const float value = 1.5f;
  const int64_t minus_five = -5;
  assert_int_equal(p->input_count, 3);
  assert_int_equal(p->inputs[0].dim, 1);
  assert_memory_equal(p->inputs[0].value, &minus_five, 8);
  assert_int_equal(p->inputs[1].index, 1);
  assert_int_equal(p->inputs[1].value[0], 255);
  assert_memory_equal(p->inputs[2].value, &value, 4);
  assert_int_equal(p->length_input, 2);
  assert_int_equal(p->output_count, 1);
  padding_config_free(p);
}

static void lengths_become_what_the_rule_says(void **state)
{
  (void)state;
  padding_config *longest = read_padding(PARAMETER("padding", "X"));
  padding_config *multiple = read_padding(PARAMETER("padding", "X") PARAMETER("padding_to", "8"));
  padding_config *buckets =
      read_padding(PARAMETER("padding", "X") PARAMETER("padding_to", "[4,16]"));
  const int64_t cases[][4] = {{0, 0, 0, 4},     {1, 1, 8, 4},
                              {4, 4, 8, 4},     {5, 5, 8, 16},
                              {8, 8, 8, 16},    {16, 16, 16, 16},
                              {17, 17, 24, 17}, {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    assert_int_equal(padding_target(longest, cases[i][0]), cases[i][1]);
    assert_int_equal(padding_target(multiple, cases[i][0]), cases[i][2]);
    assert_int_equal(padding_target(buckets, cases[i][0]), cases[i][3]);
  }
  assert_int_equal(padding_key(longest, 3), padding_key(longest, 300));
  assert_int_equal(padding_key(multiple, 3), padding_key(multiple, 300));
  assert_int_equal(padding_key(buckets, 5), padding_key(buckets, 16));
  assert_int_not_equal(padding_key(buckets, 4), padding_key(buckets, 5));
  assert_int_not_equal(padding_key(buckets, 17), padding_key(buckets, 18));
  padding_config_free(longest);
  padding_config_free(multiple);
  padding_config_free(buckets);
}

// ---- copying ----

static uint64_t random_state = 1;

static size_t random_below(size_t limit) // xorshift64*
{
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return (size_t)((random_state * UINT64_C(2685821657736338717)) >> 33) % limit;
}

// Cuts `data` into segments at random.
static size_t cut_into_segments(const char *data, size_t size, input_segment *segments)
{
  size_t count = 0;
  for (size_t at = 0; at < size; count++) {
    size_t part = count == 7 ? size - at : 1 + random_below(size - at);
    segments[count] = (input_segment){.base = data + at, .size = part};
    at += part;
  }
  return count;
}

static void what_is_copied_is_what_a_naive_loop_copies(void **state)
{
  (void)state;
  for (int round = 0; round < 20000; round++) {
    static const size_t sizes[] = {1, 2, 4, 8};
    size_t element = sizes[random_below(4)], outer = random_below(4), inner = random_below(4),
           from = random_below(6), to = from + random_below(6);
    char source[4 * 6 * 4 * 8], padded[4 * 11 * 4 * 8], back[sizeof(source)];
    unsigned char value[8] = {0};
    for (size_t i = 0; i < element; i++)
      value[i] = (unsigned char)random_below(3);
    size_t step = inner * element, size = outer * from * step;
    for (size_t i = 0; i < sizeof(source); i++)
      source[i] = (char)random_below(256);
    input_segment segments[8];
    input_data data = {.segments = segments, .byte_size = size};
    data.segment_count = (uint32_t)cut_into_segments(source, size, segments);
    memset(padded, 0x5a, sizeof(padded));
    memset(back, 0x5a, sizeof(back));
    padding_fill(padded, &data, &(padding_runs){outer, from * step, to * step}, value, element);
    for (size_t o = 0; o < outer; o++)
      for (size_t d = 0; d < to; d++)
        for (size_t i = 0; i < step; i++) {
          char expected = d < from ? source[(o * from + d) * step + i] : (char)value[i % element];
          assert_int_equal(padded[(o * to + d) * step + i], expected);
        }
    for (size_t i = outer * to * step; i < sizeof(padded); i++)
      assert_int_equal(padded[i], 0x5a); // nothing beyond it is written
    padding_cut(back, padded, &(padding_runs){outer, to * step, from * step});
    assert_memory_equal(back, source, size);
    for (size_t i = size; i < sizeof(back); i++)
      assert_int_equal(back[i], 0x5a);
  }
}

// ---- requests ----

typedef struct fixture {
  request_target target;
  int allocated, released;
  size_t allocated_bytes;
  char buffer[256]; // the client's
  response *answer;
} fixture;

static void forget_target(request_target *target)
{
  (void)target;
}

static void note_release(TRITONSERVER_InferenceRequest *r, const uint32_t flags, void *context)
{
  (void)r, (void)flags;
  ((fixture *)context)->released++;
}

static void keep_answer(TRITONSERVER_InferenceResponse *r, const uint32_t flags, void *context)
{
  (void)flags;
  ((fixture *)context)->answer = (response *)r;
}

static TRITONSERVER_Error *allocate(TRITONSERVER_ResponseAllocator *allocator, const char *name,
                                    size_t size, TRITONSERVER_MemoryType type, int64_t id,
                                    void *context, void **buffer, void **buffer_context,
                                    TRITONSERVER_MemoryType *actual_type, int64_t *actual_id)
{
  fixture *f = context;
  (void)allocator, (void)name, (void)type, (void)id;
  f->allocated++;
  f->allocated_bytes = size;
  *buffer = f->buffer;
  *buffer_context = NULL;
  *actual_type = TRITONSERVER_MEMORY_CPU;
  *actual_id = 0;
  return size <= sizeof(f->buffer) ? NULL : (TRITONSERVER_Error *)error_no_memory();
}

static TRITONSERVER_Error *release(TRITONSERVER_ResponseAllocator *allocator, void *buffer,
                                   void *context, size_t size, TRITONSERVER_MemoryType type,
                                   int64_t id)
{
  (void)allocator, (void)buffer, (void)context, (void)size, (void)type, (void)id;
  return NULL;
}

static response_allocator allocator = {.allocate = allocate, .release = release};

static void init(fixture *f, const char *parameters)
{
  AUTO_CONFIG Inference__ModelConfig *config = read_config(parameters);
  *f = (fixture){0};
  assert_taken(signature_init(&f->target.signature, config));
  assert_taken(statistics_init(&f->target.shared_statistics, 8));
  f->target.name = "m";
  f->target.version = 1;
  f->target.unreferenced = forget_target;
  refcount_init(&f->target.references);
}

static void fini(fixture *f)
{
  request_target_unref(&f->target);
  assert_int_equal(f->target.inflight, 0);
  signature_fini(&f->target.signature);
  statistics_fini(&f->target.shared_statistics);
}

// One row of X with `length` times two elements.
static request *make_request(fixture *f, const float *data, int64_t length)
{
  request *r;
  const int64_t dims[] = {1, length, 2};
  assert_taken(request_new(&f->target, &r));
  assert_taken(request_add_input(r, "X", TRITONSERVER_TYPE_FP32, dims, 3, false));
  assert_taken(request_append_input_data(
      r, "X", (input_segment){.base = data, .size = (size_t)length * 2 * sizeof(*data)}));
  r->allocator = &allocator;
  r->allocator_context = r->response_context = r->release_context = f;
  r->response_callback = keep_answer;
  r->release_callback = note_release;
  return r;
}

static const float numbers[] = {1, 2, 3, 4, 5, 6};

static void execute(request *r, int64_t target)
{
  assert_taken(request_prepare(r));
  request_set_state(r, REQUEST_PENDING);
  request_set_state(r, REQUEST_EXECUTING);
  assert_taken(padding_apply(r, target, NULL));
}

static void a_request_is_padded_and_is_its_clients_again_afterwards(void **state)
{
  (void)state;
  fixture f;
  init(&f, PARAMETER("padding", "X=9") PARAMETER("padding_length", "N"));
  request *r = make_request(&f, numbers, 2);
  for (int turn = 0; turn < 2; turn++) { // a client may send it again
    execute(r, 3);
    assert_int_equal(r->input_count, 2);
    assert_int_equal(r->inputs[0].dims[1], 3);
    assert_int_equal(r->inputs[0].data.byte_size, 24);
    const float padded[] = {1, 2, 3, 4, 9, 9};
    assert_memory_equal(r->inputs[0].data.segments[0].base, padded, sizeof(padded));
    assert_string_equal(r->inputs[1].name.data, "N");
    assert_int_equal(r->inputs[1].dim_count, 2);
    assert_int_equal(*(const int32_t *)r->inputs[1].data.segments[0].base, 2);
    response *answer;
    assert_taken(response_new(r->factory, &answer));
    assert_taken(response_send(answer, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
    request_release(r, TRITONSERVER_REQUEST_RELEASE_ALL);
    response_free(f.answer);
    assert_int_equal(r->input_count, 1);
    assert_int_equal(r->inputs[0].dims[1], 2);
    assert_ptr_equal(r->inputs[0].data.segments[0].base, numbers);
  }
  request_free(r);
  fini(&f);
}

static response_output *answer_with(request *r, int64_t length, response **answer, size_t size)
{
  response_output *output;
  TRITONSERVER_MemoryType place = TRITONSERVER_MEMORY_CPU;
  int64_t place_id = 0;
  void *buffer;
  const int64_t dims[] = {1, length, 2};
  assert_taken(response_new(r->factory, answer));
  assert_taken(response_add_output(*answer, "Y", TRITONSERVER_TYPE_FP32, dims, 3, &output));
  assert_taken(response_output_allocate(output, size, &place, &place_id, &buffer));
  memcpy(buffer, numbers, size);
  return output;
}

static void an_output_is_cut_back_into_a_buffer_that_just_fits(void **state)
{
  (void)state;
  fixture f;
  init(&f, PARAMETER("padding", "X") PARAMETER("padding_outputs", "Y"));
  request *r = make_request(&f, numbers, 2);
  execute(r, 3);
  response *answer;
  response_output *output = answer_with(r, 3, &answer, 24);
  assert_int_equal(output->dims[1], 2);
  assert_int_equal(f.allocated, 0); // how large it is is known at the end
  request_release(r, TRITONSERVER_REQUEST_RELEASE_ALL);
  assert_taken(response_send(answer, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
  assert_int_equal(f.allocated, 1);
  assert_int_equal(f.allocated_bytes, 16);
  assert_memory_equal(f.buffer, numbers, 16);
  assert_null(f.answer->failure);
  response_free(f.answer);
  request_free(r);
  fini(&f);
}

static void outputs_of_another_size_or_shape(void **state)
{
  (void)state;
  fixture f;
  init(&f, PARAMETER("padding", "X") PARAMETER("padding_outputs", "Y"));
  request *r = make_request(&f, numbers, 1);
  execute(r, 3);
  response *answer, *unsent;
  answer_with(r, 3, &unsent, 24);
  answer_with(r, 3, &answer, 16); // less than its shape says
  assert_taken(response_send(answer, 0, NULL));
  assert_refused(f.answer->failure, ERROR_INTERNAL, "wrote 16 bytes of output 'Y'");
  f.answer->failure = NULL;
  response_free(f.answer);
  assert_int_equal(f.allocated, 0);
  response_output *whole = answer_with(r, 2, &answer, 16); // no padding in it
  assert_int_equal(whole->dims[1], 2);
  assert_taken(response_send(answer, TRITONSERVER_RESPONSE_COMPLETE_FINAL, NULL));
  assert_int_equal(f.allocated_bytes, 16);
  request_release(r, TRITONSERVER_REQUEST_RELEASE_ALL);
  response_free(f.answer);
  response_free(unsent);
  request_free(r);
  fini(&f);
}

static void hostile_lengths_are_refused(void **state)
{
  (void)state;
  fixture f;
  const float one = 1;
  const int64_t huge[] = {1, INT64_C(1) << 62, 0}, some[] = {1, 3};
  init(&f, PARAMETER("padding", "two:0, ids:0") PARAMETER("padding_length", "N"));
  request *r = make_request(&f, numbers, 1);
  assert_taken(request_add_input(r, "two", TRITONSERVER_TYPE_INT64, huge, 3, false));
  assert_refused(request_prepare(r), ERROR_INVALID_ARG,
                 "input 'two' of model 'm' has the length 4611686018427387904, which does not fit");
  assert_taken(request_add_input(r, "ids:0", TRITONSERVER_TYPE_UINT8, some, 2, false));
  assert_taken(request_append_input_data(r, "ids:0", (input_segment){.base = &one, .size = 3}));
  assert_refused(request_prepare(r), ERROR_INVALID_ARG,
                 "inputs 'two' and 'ids:0' of model 'm' are padded together and have the lengths "
                 "4611686018427387904 and 3, expected the same");
  assert_taken(request_remove_input(r, "two"));
  assert_taken(request_prepare(r));
  assert_refused(padding_apply(r, INT64_MAX - 1, NULL), ERROR_UNAVAILABLE, "failed to allocate");
  assert_int_equal(r->input_count, 2);
  const int64_t single[] = {1, 1};
  assert_taken(request_add_input(r, "N", TRITONSERVER_TYPE_INT32, single, 2, false));
  assert_taken(request_append_input_data(r, "N", (input_segment){.base = &one, .size = 4}));
  assert_refused(request_prepare(r), ERROR_INVALID_ARG, "the lengths are given by the server");
  request_free(r);
  fini(&f);
}

static void what_is_empty_takes_little_memory_when_padded(void **state)
{
  (void)state;
  fixture f;
  const int64_t huge[] = {1, 0, INT64_C(1) << 40}, small[] = {1, 0, 1000};
  init(&f, PARAMETER("padding", "two:0"));
  request *r = make_request(&f, numbers, 1);
  assert_taken(request_add_input(r, "two", TRITONSERVER_TYPE_INT64, huge, 3, false));
  assert_taken(request_prepare(r));
  assert_refused(padding_apply(r, 8, NULL), ERROR_INVALID_ARG,
                 "the inputs for model 'm' are empty and would take more than 67108864 bytes when "
                 "padded to a length of 8");
  assert_refused(padding_apply(r, INT64_C(1) << 62, NULL), ERROR_INVALID_ARG, "are empty");
  assert_taken(request_remove_input(r, "two"));
  assert_taken(request_add_input(r, "two", TRITONSERVER_TYPE_INT64, small, 3, false));
  execute(r, 8);
  assert_int_equal(request_find_input(r, "two")->data.byte_size, 8 * 1000 * 8);
  request_release(r, TRITONSERVER_REQUEST_RELEASE_ALL);
  request_free(r);
  fini(&f);
}

static void lengths_share_a_batch_as_the_rule_says(void **state)
{
  (void)state;
  fixture f;
  init(&f, PARAMETER("padding", "X") PARAMETER("padding_to", "[1, 3]")
               PARAMETER("padding_length", "L"));
  request *r[3];
  for (int i = 0; i < 3; i++) {
    r[i] = make_request(&f, numbers, i + 1);
    assert_taken(
        request_add_input(r[i], "N", TRITONSERVER_TYPE_INT32, (int64_t[]){1, 1}, 2, false));
    assert_taken(request_append_input_data(r[i], "N", (input_segment){.base = numbers, .size = 4}));
    assert_taken(request_prepare(r[i]));
  }
  assert_false(slice_equal(r[0]->item.batch_key, r[1]->item.batch_key));
  assert_true(slice_equal(r[1]->item.batch_key, r[2]->item.batch_key));
  for (int i = 0; i < 3; i++)
    request_free(r[i]);
  fini(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_mistake_is_named),
      cmocka_unit_test(parameters_say_what_is_padded),
      cmocka_unit_test(lengths_become_what_the_rule_says),
      cmocka_unit_test(what_is_copied_is_what_a_naive_loop_copies),
      cmocka_unit_test(a_request_is_padded_and_is_its_clients_again_afterwards),
      cmocka_unit_test(an_output_is_cut_back_into_a_buffer_that_just_fits),
      cmocka_unit_test(outputs_of_another_size_or_shape),
      cmocka_unit_test(hostile_lengths_are_refused),
      cmocka_unit_test(what_is_empty_takes_little_memory_when_padded),
      cmocka_unit_test(lengths_share_a_batch_as_the_rule_says),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
