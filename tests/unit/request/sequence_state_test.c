// SPDX-License-Identifier: Apache-2.0
// The states of one sequence, by hand: what each request reads, what its backend writes, and whose
// memory it is. And the inputs that the core shows in place of the client's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/blocks.h"
#include "base/cleanup.h"
#include "request/sequence_state.h"

#include <stdlib.h>
#include <string.h>

typedef struct fixture {
  request_target target;
  request *r;
  sequence_states *states;
  state_rules rules;
} fixture;

// A source that plays a GPU with the heap's memory, and counts what is out.
typedef struct played_source {
  size_t taken, regions, grown;
  bool is_full;
} played_source;

static error *take(void *context, size_t size, TRITONSERVER_MemoryType *type, int64_t *id,
                   void **data)
{
  played_source *s = context;
  if (s->is_full) {
    *type = TRITONSERVER_MEMORY_CPU;
    return NULL;
  }
  assert_int_equal(*type, TRITONSERVER_MEMORY_GPU);
  assert_int_equal(*id, 1);
  *data = malloc(size);
  s->taken++;
  return NULL;
}

static void give_back(void *context, void *data, TRITONSERVER_MemoryType type, int64_t id)
{
  assert_int_equal(type, TRITONSERVER_MEMORY_GPU);
  assert_int_equal(id, 1);
  ((played_source *)context)->taken--;
  free(data);
}

static error *take_region(void *context, int32_t device, const void *initial, size_t size,
                          void **region, void **data)
{
  assert_int_equal(device, 1);
  *region = *data = calloc(1, 64);
  memcpy(*data, initial, size);
  ((played_source *)context)->regions++;
  return NULL;
}

static error *grow_region(void *context, void *region, size_t size)
{
  (void)region;
  ((played_source *)context)->grown++;
  return size <= 64 ? NULL : error_new(ERROR_INVALID_ARG, "larger than the addresses");
}

static void give_region_back(void *context, void *region)
{
  ((played_source *)context)->regions--;
  free(region);
}

static state_source source_of(played_source *s)
{
  return (state_source){s, take, give_back, take_region, grow_region, give_region_back, false};
}

static void unreferenced(request_target *target)
{
  (void)target;
}

static const int64_t one[] = {1}, two[] = {2}, three[] = {3};

static void start(fixture *f, const state_rule *rules, size_t count)
{
  *f = (fixture){.target = {.name = "m", .version = 1, .unreferenced = unreferenced}};
  AUTO_CONFIG Inference__ModelConfig *config = NULL;
  assert_null(config_read_text(slice_of("name: 'm'"), "test", &config));
  assert_null(signature_init(&f->target.signature, config));
  assert_null(statistics_init(&f->target.shared_statistics, 8));
  refcount_init(&f->target.references);
  assert_null(request_new(&f->target, &f->r));
  f->rules = (state_rules){.items = (state_rule *)rules, .count = count};
  assert_null(sequence_states_new(&f->rules, &f->states));
}

static void stop(fixture *f)
{
  request_drop_states(f->r);
  request_free(f->r);
  sequence_states_unref(f->states);
  signature_fini(&f->target.signature);
  statistics_fini(&f->target.shared_statistics);
}

static void expect_input(fixture *f, const char *name, const int64_t *dims, uint32_t dim_count,
                         const void *data, size_t size)
{
  const request_input *input = request_find_input(f->r, name);
  assert_non_null(input);
  assert_int_equal(input->dim_count, dim_count);
  assert_memory_equal(input->dims, dims, dim_count * sizeof(*dims));
  assert_int_equal(input->data.byte_size, size);
  assert_int_equal(input->data.segment_count, size > 0);
  if (size > 0)
    assert_memory_equal(input->data.segments[0].base, data, size);
}

static state_tensor *find(fixture *f, const char *name, const int64_t *dims)
{
  state_tensor *state = NULL;
  assert_null(state_tensor_find(f->r, name, TRITONSERVER_TYPE_INT32, dims, 1, &state));
  return state;
}

// Has the backend write the next state.
static void put(fixture *f, const char *name, const int64_t *dims, const int32_t *values)
{
  state_tensor *state = find(f, name, dims);
  void *data = NULL;
  size_t size = (size_t)dims[0] * sizeof(*values);
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  assert_null(state_tensor_allocate(state, size, &type, &id, &data));
  assert_int_equal(type, TRITONSERVER_MEMORY_CPU);
  assert_int_equal(state->attributes.byte_size, size);
  assert_int_equal((uintptr_t)data % BLOCK_ALIGNMENT, 0);
  if (size > 0)
    memcpy(data, values, size);
  assert_null(state_tensor_update(state));
}

static void expect(fixture *f, const char *name, const int64_t *dims, const int32_t *values)
{
  assert_null(request_set_states(f->r, f->states));
  expect_input(f, name, dims, 1, values, (size_t)dims[0] * sizeof(*values));
}

static const state_rule plain = {
    .input_name = "IN",
    .output_name = "OUT",
    .datatype = TRITONSERVER_TYPE_INT32,
    .dims = one,
    .dim_count = 1,
    .initial_size = 4,
};

static void begins_with_zeros_and_goes_on_with_what_was_written(void **context)
{
  (void)context;
  fixture f;
  start(&f, &plain, 1);
  for (int32_t i = 0; i < 5; i++) {
    expect(&f, "IN", one, &i);
    put(&f, "OUT", one, (int32_t[]){i + 1});
    expect_input(&f, "IN", one, 1, &i, 4); // the request reads its own to its end
  }
  assert_int_equal(f.r->input_count, 1);
  stop(&f);
}

static void begins_with_what_the_rule_gives(void **context)
{
  (void)context;
  fixture f;
  const int32_t initial[] = {7, 8};
  state_rule rule = plain;
  rule.dims = two;
  rule.initial = initial;
  rule.initial_size = sizeof(initial);
  start(&f, &rule, 1);
  expect(&f, "IN", two, initial);
  stop(&f);
}

static void what_is_not_updated_stays(void **context)
{
  (void)context;
  fixture f;
  void *data = NULL;
  start(&f, &plain, 1);
  expect(&f, "IN", one, (int32_t[]){0});
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_CPU;
  int64_t id = 0;
  assert_null(state_tensor_allocate(find(&f, "OUT", one), 4, &type, &id, &data));
  *(int32_t *)data = 5;
  expect(&f, "IN", one, (int32_t[]){0});
  stop(&f);
}

static void two_buffers_take_turns(void **context)
{
  (void)context;
  fixture f;
  start(&f, &plain, 1);
  expect(&f, "IN", one, (int32_t[]){0});
  const void *first = f.states->items[0].memory.data;
  put(&f, "OUT", one, (int32_t[]){1});
  const void *second = f.states->items[0].memory.data;
  assert_ptr_not_equal(first, second);
  expect(&f, "IN", one, (int32_t[]){1});
  put(&f, "OUT", one, (int32_t[]){2});
  assert_ptr_equal(f.states->items[0].memory.data, first);
  stop(&f);
}

static void one_buffer_is_written_in_place(void **context)
{
  (void)context;
  fixture f;
  state_rule rule = plain;
  rule.same_buffer = true;
  start(&f, &rule, 1);
  expect(&f, "IN", one, (int32_t[]){0});
  const void *first = f.states->items[0].memory.data;
  put(&f, "OUT", one, (int32_t[]){3});
  expect_input(&f, "IN", one, 1, (int32_t[]){3}, 4);
  assert_ptr_equal(f.states->items[0].memory.data, first);
  expect(&f, "IN", one, (int32_t[]){3});
  put(&f, "OUT", three, (int32_t[]){1, 2, 3}); // another size: another buffer, once it is not read
  expect(&f, "IN", three, (int32_t[]){1, 2, 3});
  stop(&f);
}

static void sizes_may_change(void **context)
{
  (void)context;
  fixture f;
  const int32_t values[] = {4, 5, 6};
  start(&f, &plain, 1);
  expect(&f, "IN", one, (int32_t[]){0});
  put(&f, "OUT", three, values);
  expect_input(&f, "IN", one, 1, (int32_t[]){0}, 4);
  put(&f, "OUT", two, values); // twice in one request: the last counts
  expect_input(&f, "IN", one, 1, (int32_t[]){0}, 4);
  expect(&f, "IN", two, values);
  put(&f, "OUT", one, values);
  expect(&f, "IN", one, values);
  put(&f, "OUT", three, values);
  put(&f, "OUT", one, (int32_t[]){9});
  put(&f, "OUT", three, values);
  expect_input(&f, "IN", one, 1, values, 4);
  expect(&f, "IN", three, values);
  stop(&f);
}

static void a_state_may_be_empty(void **context)
{
  (void)context;
  fixture f;
  const int64_t none[] = {0};
  start(&f, &plain, 1);
  expect(&f, "IN", one, (int32_t[]){0});
  put(&f, "OUT", none, NULL);
  expect(&f, "IN", none, NULL);
  assert_null(state_tensor_update(find(&f, "OUT", one))); // nothing was written
  assert_null(request_set_states(f.r, f.states));
  stop(&f);
}

static void each_output_belongs_to_its_input(void **context)
{
  (void)context;
  fixture f;
  state_rule rules[] = {plain, plain}; // Triton 2.51 confuses two whose names sort otherwise
  rules[0].input_name = "A";
  rules[0].output_name = "Y";
  rules[1].input_name = "B";
  rules[1].output_name = "X";
  start(&f, rules, 2);
  expect(&f, "A", one, (int32_t[]){0});
  put(&f, "Y", one, (int32_t[]){1});
  put(&f, "X", one, (int32_t[]){2});
  expect(&f, "A", one, (int32_t[]){1});
  expect(&f, "B", one, (int32_t[]){2});
  stop(&f);
}

static void a_null_request_reads_zeros_of_the_same_shapes(void **context)
{
  (void)context;
  fixture f;
  sequence_states *null = NULL;
  state_rule rules[] = {plain, plain};
  rules[1].input_name = "TEXT";
  rules[1].output_name = "TEXT_OUT";
  rules[1].datatype = TRITONSERVER_TYPE_BYTES;
  rules[1].initial = "\3\0\0\0abc";
  rules[1].initial_size = 7;
  start(&f, rules, 2);
  expect(&f, "IN", one, (int32_t[]){0});
  put(&f, "OUT", two, (int32_t[]){1, 2});
  assert_null(sequence_states_new_null(f.states, &null));
  assert_null(request_set_states(f.r, null));
  expect_input(&f, "IN", two, 1, (int32_t[]){0, 0}, 8);
  expect_input(&f, "TEXT", one, 1, "\0\0\0\0", 4);
  put(&f, "OUT", two, (int32_t[]){3, 4});
  expect(&f, "IN", two, (int32_t[]){1, 2});
  sequence_states_unref(null);
  stop(&f);
}

static void states_of_different_shapes_do_not_share_a_batch(void **context)
{
  (void)context;
  fixture f, other;
  start(&f, &plain, 1);
  start(&other, &plain, 1);
  f.target.signature.max_batch_size = other.target.signature.max_batch_size = 4;
  f.r->item.batch_key = slice_of("wide");
  other.r->item.batch_key = slice_of("wide");
  for (int pass = 0; pass < 3; pass++) {
    assert_null(request_set_states(f.r, f.states));
    assert_null(request_set_states(other.r, other.states));
    assert_true(slice_equal(f.r->item.batch_key, other.r->item.batch_key) == (pass != 1));
    assert_memory_equal(f.r->item.batch_key.data, "wide", 4);
    put(pass == 0 ? &f : &other, "OUT", two, (int32_t[]){1, 2});
  }
  request_drop_states(f.r);
  f.r->item.batch_key = slice_of("tall"); // the sequence's next request
  assert_null(request_set_states(f.r, f.states));
  assert_memory_equal(f.r->item.batch_key.data, "tall", 4);
  assert_int_equal(f.r->item.batch_key.size, other.r->item.batch_key.size);
  stop(&f);
  stop(&other);
}

static void names_the_state_that_is_not_there(void **context)
{
  (void)context;
  fixture f;
  state_tensor *state;
  start(&f, &plain, 1);
  error *e = state_tensor_find(f.r, "OUT", TRITONSERVER_TYPE_INT32, one, 1, &state);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_string_equal(error_message(e),
                      "unable to add state 'OUT'. State configuration is missing for model 'm'.");
  error_free(e);
  assert_null(request_set_states(f.r, f.states));
  e = state_tensor_find(f.r, "IN", TRITONSERVER_TYPE_INT32, one, 1, &state);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_string_equal(error_message(e), "state 'IN' is not a valid state name.");
  error_free(e);
  stop(&f);
}

// ---- overrides ----

static void overrides_stand_in_for_the_clients_inputs(void **context)
{
  (void)context;
  fixture f;
  start(&f, &plain, 1);
  const int32_t given = 1, shown = 2;
  for (int i = 0; i < 3; i++) {
    char name[] = {(char)('A' + i), '\0'};
    assert_null(request_add_input(f.r, name, TRITONSERVER_TYPE_INT32, one, 1, false));
    assert_null(request_append_input_data(f.r, name, (input_segment){.base = &given, .size = 4}));
  }
  for (int pass = 0; pass < 3; pass++) {
    assert_null(request_set_override(f.r, "B", TRITONSERVER_TYPE_INT32, one, 1,
                                     (input_segment){.base = &shown, .size = 4}));
    assert_null(request_set_override(f.r, "D", TRITONSERVER_TYPE_INT32, pass == 2 ? two : one, 1,
                                     (input_segment){.base = &shown, .size = 4}));
    assert_int_equal(f.r->input_count, 4);
    expect_input(&f, "B", one, 1, &shown, 4);
    expect_input(&f, "D", pass == 2 ? two : one, 1, &shown, 4);
  }
  request_drop_overrides(f.r);
  assert_int_equal(f.r->input_count, 3);
  assert_null(request_find_input(f.r, "D"));
  assert_ptr_equal(request_find_input(f.r, "B")->data.segments[0].base, &given);
  assert_null(request_add_input(f.r, "E", TRITONSERVER_TYPE_INT32, one, 1, false));
  assert_non_null(request_find_input(f.r, "E"));
  stop(&f);
}

static void repeated_overrides_take_no_memory(void **context)
{
  (void)context;
  fixture f;
  start(&f, &plain, 1);
  assert_null(request_set_states(f.r, f.states));
  const char *before = f.r->input_memory.next;
  for (int pass = 0; pass < 100; pass++) {
    put(&f, "OUT", one, (int32_t[]){pass});
    assert_null(request_set_states(f.r, f.states));
  }
  assert_ptr_equal(f.r->input_memory.next, before);
  stop(&f);
}

// ---- on a GPU ----

static void *allocate_on_gpu(fixture *f, const char *name, const int64_t *dims, size_t size,
                             TRITONSERVER_MemoryType expected)
{
  state_tensor *state = find(f, name, dims);
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  int64_t id = 1;
  void *data = NULL;
  assert_null(state_tensor_allocate(state, size, &type, &id, &data));
  assert_int_equal(type, expected);
  assert_int_equal(id, expected == TRITONSERVER_MEMORY_GPU ? 1 : 0);
  assert_int_equal(state->attributes.memory_type, type);
  assert_int_equal(state->attributes.memory_type_id, id);
  return data;
}

static const input_segment *shown(fixture *f)
{
  assert_null(request_set_states(f->r, f->states));
  return &request_find_input(f->r, "IN")->data.segments[0];
}

static void a_state_stays_where_it_was_written(void **context)
{
  (void)context;
  fixture f;
  played_source s = {0};
  start(&f, &plain, 1);
  f.rules.source = source_of(&s);
  assert_int_equal(shown(&f)->memory_type, TRITONSERVER_MEMORY_CPU); // as Triton's first one
  void *first = allocate_on_gpu(&f, "OUT", one, 4, TRITONSERVER_MEMORY_GPU);
  *(int32_t *)first = 5;
  assert_null(state_tensor_update(find(&f, "OUT", one)));
  assert_ptr_equal(shown(&f)->base, first);
  assert_int_equal(shown(&f)->memory_type, TRITONSERVER_MEMORY_GPU);
  assert_int_equal(shown(&f)->memory_type_id, 1);
  allocate_on_gpu(&f, "OUT", one, 4, TRITONSERVER_MEMORY_GPU); // that of the host is not reused
  assert_int_equal(s.taken, 2);
  assert_ptr_equal(allocate_on_gpu(&f, "OUT", one, 4, TRITONSERVER_MEMORY_GPU),
                   f.states->items[0].next.data);
  assert_int_equal(s.taken, 2); // but one that fits is
  stop(&f);
  assert_int_equal(s.taken, 0);
}

static void without_room_a_state_is_on_the_host(void **context)
{
  (void)context;
  fixture f;
  played_source s = {.is_full = true};
  start(&f, &plain, 1);
  f.rules.source = source_of(&s);
  shown(&f);
  allocate_on_gpu(&f, "OUT", one, 4, TRITONSERVER_MEMORY_CPU);
  assert_null(state_tensor_update(find(&f, "OUT", one)));
  assert_int_equal(shown(&f)->memory_type, TRITONSERVER_MEMORY_CPU);
  stop(&f);
}

static void a_state_that_grows_keeps_its_place(void **context)
{
  (void)context;
  static const int32_t initial[] = {7};
  const state_rule grows = {.input_name = "IN",
                            .output_name = "OUT",
                            .datatype = TRITONSERVER_TYPE_INT32,
                            .dims = one,
                            .dim_count = 1,
                            .same_buffer = true,
                            .grows = true,
                            .initial = initial,
                            .initial_size = sizeof(initial)};
  fixture f;
  played_source s = {0};
  start(&f, &grows, 1);
  f.rules.source = source_of(&s);
  shown(&f);
  assert_null(request_place_states(f.r, 1));
  assert_null(request_place_states(f.r, 1)); // once
  assert_int_equal(s.regions, 1);
  const input_segment *in = &request_find_input(f.r, "IN")->data.segments[0];
  assert_int_equal(in->memory_type, TRITONSERVER_MEMORY_GPU);
  assert_int_equal(*(const int32_t *)in->base, 7);
  const void *place = in->base;
  assert_ptr_equal(allocate_on_gpu(&f, "OUT", two, 8, TRITONSERVER_MEMORY_GPU), place);
  assert_null(state_tensor_update(find(&f, "OUT", two)));
  assert_ptr_equal(shown(&f)->base, place);
  assert_int_equal(shown(&f)->size, 8);
  assert_int_equal(s.grown, 1);
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  int64_t id = 1;
  void *data;
  error *e = state_tensor_allocate(find(&f, "OUT", two), 65, &type, &id, &data);
  assert_non_null(e);
  error_free(e);
  assert_int_equal(shown(&f)->size, 8); // what is there stays
  stop(&f);
  assert_int_equal(s.regions, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(begins_with_zeros_and_goes_on_with_what_was_written),
      cmocka_unit_test(begins_with_what_the_rule_gives),
      cmocka_unit_test(what_is_not_updated_stays),
      cmocka_unit_test(a_state_stays_where_it_was_written),
      cmocka_unit_test(without_room_a_state_is_on_the_host),
      cmocka_unit_test(a_state_that_grows_keeps_its_place),
      cmocka_unit_test(two_buffers_take_turns),
      cmocka_unit_test(one_buffer_is_written_in_place),
      cmocka_unit_test(sizes_may_change),
      cmocka_unit_test(a_state_may_be_empty),
      cmocka_unit_test(each_output_belongs_to_its_input),
      cmocka_unit_test(a_null_request_reads_zeros_of_the_same_shapes),
      cmocka_unit_test(states_of_different_shapes_do_not_share_a_batch),
      cmocka_unit_test(names_the_state_that_is_not_there),
      cmocka_unit_test(overrides_stand_in_for_the_clients_inputs),
      cmocka_unit_test(repeated_overrides_take_no_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
