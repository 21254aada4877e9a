// SPDX-License-Identifier: Apache-2.0
// Inference requests in protobuf's wire format that cannot be, and how much one may hold.
#include "frontend/common/net/request_limits.h"
#include "proto_request.h"

// ---- shared memory and classification ----

static void append_text_parameter(buffer *b, uint32_t number, const char *key, const char *value)
{
  size_t entry = proto_begin(b, number);
  proto_append_text(b, 1, key);
  size_t choice = proto_begin(b, 2);
  proto_append_bytes(b, 3, slice_of(value));
  proto_end(b, choice);
  proto_end(b, entry);
}

static void an_input_in_shared_memory_takes_no_raw_contents(void **state)
{
  fixture *f = *state;
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  size_t shared = proto_begin(&b, 5);
  proto_append_text(&b, 1, "shared");
  append_text_parameter(&b, 4, "shared_memory_region", "region");
  append_parameter(&b, 4, "shared_memory_offset", 2, 16);
  append_parameter(&b, 4, "shared_memory_byte_size", 2, 32);
  proto_end(&b, shared);
  size_t raw = proto_begin(&b, 5);
  proto_append_text(&b, 1, "raw");
  proto_end(&b, raw);
  proto_append_bytes(&b, 7, SLICE("data"));
  assert_ok(read_buffer(f, &b));
  const infer_json_input *got = f->request.inputs;
  assert_string_equal(got[0].shared_memory.region, "region");
  assert_int_equal(got[0].shared_memory.offset, 16);
  assert_int_equal(got[0].shared_memory.byte_size, 32);
  assert_null(got[0].data);
  assert_null(got[1].shared_memory.region);
  assert_int_equal(got[1].data_size, 4);
}

// A request of one output "o" with what `number` parameters say.
static error *read_output_with(fixture *f, void (*append)(buffer *b))
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  size_t output = proto_begin(&b, 6);
  proto_append_text(&b, 1, "o");
  append(&b);
  proto_end(&b, output);
  return read_buffer(f, &b);
}

static void append_class_3(buffer *b)
{
  append_parameter(b, 2, "classification", 2, 3);
}

static void append_class_bool(buffer *b)
{
  append_parameter(b, 2, "classification", 1, 1);
}

static void append_class_0(buffer *b)
{
  append_parameter(b, 2, "classification", 2, 0);
}

static void append_region(buffer *b)
{
  append_text_parameter(b, 2, "shared_memory_region", "r");
}

static void append_region_number(buffer *b)
{
  append_parameter(b, 2, "shared_memory_region", 2, 1);
}

static void append_offset(buffer *b)
{
  append_parameter(b, 2, "shared_memory_offset", 2, 1);
}

static void append_size(buffer *b)
{
  append_parameter(b, 2, "shared_memory_byte_size", 2, 1);
}

static void append_region_and_class(buffer *b)
{
  append_region(b);
  append_size(b);
  append_class_3(b);
}

static void append_region_and_negative_offset(buffer *b)
{
  append_region(b);
  append_size(b);
  append_parameter(b, 2, "shared_memory_offset", 2, (uint64_t)-1);
}

static void append_region_and_bool_size(buffer *b)
{
  append_region(b);
  append_parameter(b, 2, "shared_memory_byte_size", 1, 1);
}

static void outputs_have_a_classification(void **state)
{
  fixture *f = *state;
  assert_ok(read_output_with(f, append_class_3));
  assert_int_equal(f->request.output_count, 1);
  assert_string_equal(f->request.outputs[0].name, "o");
  assert_true(f->request.outputs[0].binary);
  assert_int_equal(f->request.outputs[0].classification, 3);
}

static void parameters_of_tensors_that_cannot_be_are_refused(void **state)
{
  static const struct {
    void (*append)(buffer *b);
    const char *text;
  } rows[] = {
      {append_class_bool,
       "invalid value type for 'classification' parameter, expected int64_param"},
      {append_class_0, "invalid value for 'classification' parameter, expected >= 0"},
      {append_region_number, "invalid value type for 'shared_memory_region' parameter for tensor "
                             "'o', expected string_param."},
      {append_offset, "'shared_memory_offset' can not be specified without 'shared_memory_region' "
                      "parameter for tensor 'o'"},
      {append_size, "'shared_memory_byte_size' can not be specified without "
                    "'shared_memory_region' parameter for tensor 'o'"},
      {append_region, "'shared_memory_byte_size' must be specified along with "
                      "'shared_memory_region' parameter for tensor 'o'"},
      {append_region_and_class,
       "output can't set both 'shared_memory_region' and 'classification'"},
      {append_region_and_negative_offset, "invalid value for 'shared_memory_offset' parameter for "
                                          "tensor 'o', expected value >= 0."},
      {append_region_and_bool_size, "invalid value type for 'shared_memory_byte_size' parameter "
                                    "for tensor 'o', expected int64_param."},
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    assert_refused(read_output_with(*state, rows[i].append), rows[i].text);
}

// ---- what is no request ----

static void broken_messages_are_refused(void **state)
{
  static const slice rows[] = {
      SLICE("\x0a"),                                         // no size
      SLICE("\x0a\x02m"),                                    // cut off
      SLICE("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), // longer than can be
      SLICE("\x0a\x80"),                                     // half a varint
      SLICE("\x02\x00"),                                     // field number 0
      SLICE("\x0e"),                                         // wire type 6
      SLICE("\x0c"),                                         // the end of no group
      SLICE("\x0b\x14"),                                     // the end of another group
      SLICE("\x0b"),                                         // a group without end
      SLICE("\x09\x01"),                                     // half a fixed64
      SLICE("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), // a varint of eleven bytes
      SLICE("\xff\xff\xff\xff\x7f\x00"),                     // a tag above 32 bits
      SLICE("\x2a\x02\x0a\x05"),                             // within an input
      SLICE("\x2a\x03\x1a\x01\x80"),                         // within a packed shape
      SLICE("\x2a\x05\x2a\x03\x12\x01\x80"),                 // within packed contents
      SLICE("\x2a\x07\x2a\x05\x32\x03"
            "abc"),                      // half a float
      SLICE("\x32\x02\x12\x01"),         // within an output
      SLICE("\x22\x02\x12\x05"),         // within a parameter
      SLICE("\x22\x04\x12\x02\x1a\x05"), // within its value
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    assert_refused(read_bytes(*state, rows[i].data, rows[i].size), BROKEN);
}

static void texts_that_are_not_utf8_are_refused(void **state)
{
  const char *not_utf8 = "Unable to parse request: a string is not UTF-8";
  assert_refused(read_bytes(*state, "\x0a\x01\xff", 3), not_utf8);
  assert_refused(read_bytes(*state, "\x2a\x03\x0a\x01\xc3", 5), not_utf8);
  assert_refused(read_bytes(*state, "\x22\x03\x0a\x01\xff", 5), not_utf8);
  assert_refused(read_bytes(*state, "\x22\x05\x12\x03\x1a\x01\xff", 7), not_utf8);
  assert_refused(read_bytes(*state, "\x0a\x02m\0", 4),
                 "Unable to parse request: a string has a NUL character");
}

static void unknown_fields_and_wire_types_are_skipped(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  proto_append_integer(&b, 1, 5); // model_name as a number
  proto_append_double(&b, 99, 1);
  proto_append_bytes(&b, 1000, SLICE("\xff\xff"));
  for (int i = 0; i < PROTO_GROUP_DEPTH; i++)
    proto_append_tag(&b, 50, PROTO_GROUP);
  proto_append_integer(&b, 1, 1);
  for (int i = 0; i < PROTO_GROUP_DEPTH; i++)
    proto_append_tag(&b, 50, PROTO_GROUP_END);
  proto_append_text(&b, 1, "m");
  fixture *f = *state;
  assert_ok(read_buffer(f, &b));
  assert_string_equal(f->request.model_name, "m");
}

static void groups_that_nest_too_deep_are_refused(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  for (int i = 0; i <= PROTO_GROUP_DEPTH; i++)
    proto_append_tag(&b, 50, PROTO_GROUP);
  for (int i = 0; i <= PROTO_GROUP_DEPTH; i++)
    proto_append_tag(&b, 50, PROTO_GROUP_END);
  assert_refused(read_buffer(*state, &b), BROKEN);
}

static void names_and_id_are_known_after_a_refusal(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  proto_append_text(&b, 1, "m");
  proto_append_text(&b, 3, "i");
  proto_append_bytes(&b, 5, SLICE("\x0a\x05"));
  proto_append_tag(&b, 7, PROTO_BYTES); // cut off
  fixture *f = *state;
  assert_refused(read_buffer(f, &b), BROKEN);
  assert_string_equal(f->request.model_name, "m");
  assert_string_equal(f->request.model_version, "");
  assert_string_equal(f->request.id, "i");
}

// ---- what is long ----

// Raw contents are looked at, not read; of others their sizes tell. A group's end has to be found.
static void what_is_to_be_read_tells_whether_a_message_is_long(void **state)
{
  (void)state;
  static char zeroes[1000];
  static const struct {
    uint32_t number;
    size_t count;
    size_t size;
    bool is_long;
  } rows[] = {{7, 1, 1000, false}, {7, 100, 1000, true}, {5, 1, 1000, true}, {99, 1, 1000, true},
              {99, 100, 0, true},  {1, 100, 0, true},    {99, 40, 0, false}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    AUTO_BUFFER buffer b = BUFFER_EMPTY;
    proto_append_text(&b, 1, "m");
    for (size_t k = 0; k < rows[i].count; k++)
      proto_append_bytes(&b, rows[i].number, (slice){zeroes, rows[i].size});
    assert_int_equal(infer_request_proto_is_long(buffer_view(&b), 100), rows[i].is_long);
    assert_false(infer_request_proto_is_long(buffer_view(&b), b.size));
  }
  AUTO_BUFFER buffer group = BUFFER_EMPTY;
  proto_append_text(&group, 1, "m");
  assert_false(infer_request_proto_is_long(buffer_view(&group), 100));
  proto_append_tag(&group, 50, PROTO_GROUP);
  assert_true(infer_request_proto_is_long(buffer_view(&group), 100));
  assert_false(infer_request_proto_is_long(SLICE("\xff\xff"), 100)); // it is refused at once
}

// ---- limits ----

static void append_many(buffer *b, uint32_t number, size_t count)
{
  for (size_t i = 0; i < count; i++)
    proto_append_bytes(b, number, SLICE(""));
}

static void counts_of_fields_have_limits(void **state)
{
  static const struct {
    uint32_t number;
    const char *text;
  } rows[] = {{4, "expected at most 4096 parameters in a request"},
              {5, "expected at most 4096 inputs in a request"},
              {6, "expected at most 4096 outputs in a request"},
              {7, "expected at most 4096 raw contents in a request"}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    AUTO_BUFFER buffer b = BUFFER_EMPTY;
    append_many(&b, rows[i].number, REQUEST_TENSORS_MAX + 1);
    assert_refused(read_buffer(*state, &b), rows[i].text);
  }
  AUTO_BUFFER buffer fits = BUFFER_EMPTY;
  append_many(&fits, 5, REQUEST_TENSORS_MAX);
  append_many(&fits, 6, REQUEST_TENSORS_MAX);
  append_many(&fits, 7, REQUEST_TENSORS_MAX);
  fixture *f = *state;
  assert_ok(read_buffer(f, &fits));
  assert_int_equal(f->request.input_count, REQUEST_TENSORS_MAX);
  assert_int_equal(f->request.output_count, REQUEST_TENSORS_MAX);
}

static void parameters_of_tensors_count_with_the_requests(void **state)
{
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  append_many(&b, 4, REQUEST_PARAMETERS_MAX);
  size_t output = proto_begin(&b, 6);
  append_many(&b, 2, 1);
  proto_end(&b, output);
  assert_refused(read_buffer(*state, &b), "expected at most 4096 parameters in a request");
}

static void ranks_names_and_ids_have_limits(void **state)
{
  char text[REQUEST_ID_MAX_BYTES + 1];
  memset(text, 'x', sizeof(text));
  AUTO_BUFFER buffer b = BUFFER_EMPTY;
  proto_append_bytes(&b, 3, (slice){text, sizeof(text)});
  assert_refused(read_buffer(*state, &b), "expected an id of at most 65536 bytes");
  b.size = 0;
  size_t input = proto_begin(&b, 5);
  proto_append_bytes(&b, 1, (slice){text, REQUEST_NAME_MAX_BYTES + 1});
  proto_end(&b, input);
  assert_refused(read_buffer(*state, &b), "expected a tensor's name of at most 255 bytes");
  b.size = 0;
  input = proto_begin(&b, 5);
  proto_append_text(&b, 1, "in");
  proto_append_bytes(&b, 3, (slice){text, REQUEST_DIMENSIONS_MAX + 1});
  proto_end(&b, input);
  assert_refused(read_buffer(*state, &b), "input 'in': expected at most 64 dimensions");
}

// Row 17: 10^6 repeated fields cost no multiple of the message.
static void repeated_fields_are_not_kept(void **state)
{
  fixture *f = *state;
  static char memory[65536];
  for (uint32_t number = 1; number <= 3; number++) {
    arena_fini(&f->a);
    arena_init(&f->a, memory, sizeof(memory));
    AUTO_BUFFER buffer b = BUFFER_EMPTY;
    append_many(&b, number, 1000000);
    size_t input = proto_begin(&b, 5);
    append_many(&b, 1, 1000000); // names
    append_many(&b, 3, 1000000); // shapes
    append_many(&b, 5, 1000000); // contents
    proto_end(&b, input);
    assert_ok(read_buffer(f, &b));
    assert_null(f->a.blocks); // it needed no more
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(an_input_in_shared_memory_takes_no_raw_contents),
      TEST(outputs_have_a_classification),
      TEST(parameters_of_tensors_that_cannot_be_are_refused),
      TEST(broken_messages_are_refused),
      TEST(texts_that_are_not_utf8_are_refused),
      TEST(unknown_fields_and_wire_types_are_skipped),
      TEST(groups_that_nest_too_deep_are_refused),
      TEST(names_and_id_are_known_after_a_refusal),
      TEST(what_is_to_be_read_tells_whether_a_message_is_long),
      TEST(counts_of_fields_have_limits),
      TEST(parameters_of_tensors_count_with_the_requests),
      TEST(ranks_names_and_ids_have_limits),
      TEST(repeated_fields_are_not_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
