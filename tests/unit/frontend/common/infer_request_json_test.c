// SPDX-License-Identifier: Apache-2.0
// Inference requests as JSON: what is taken, byte by byte, and what is refused, by name.
#include "json_request.h"

// ---- tensors ----

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

static const struct {
  const char *datatype;
  const char *shape;
  const char *data;
  const uint8_t *bytes;
  size_t size;
} good_tensors[] = {
    {"BOOL", "[3]", "[true,false,true]", BYTES(1, 0, 1)},
    {"UINT8", "[2]", "[0,255]", BYTES(0, 255)},
    {"UINT16", "[2]", "[1,65535]", BYTES(1, 0, 255, 255)},
    {"UINT32", "[2]", "[1,4294967295]", BYTES(1, 0, 0, 0, 255, 255, 255, 255)},
    {"UINT64", "[2]", "[1,18446744073709551615]",
     BYTES(1, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255)},
    {"INT8", "[3]", "[-128,127,-1]", BYTES(0x80, 0x7f, 0xff)},
    {"INT16", "[2]", "[-32768,32767]", BYTES(0, 0x80, 0xff, 0x7f)},
    {"INT32", "[2]", "[-2147483648,2147483647]", BYTES(0, 0, 0, 0x80, 255, 255, 255, 0x7f)},
    {"INT64", "[2]", "[-9223372036854775808,9223372036854775807]",
     BYTES(0, 0, 0, 0, 0, 0, 0, 0x80, 255, 255, 255, 255, 255, 255, 255, 0x7f)},
    {"FP16", "[4]", "[1,-2.5,65504,NaN]", BYTES(0, 0x3c, 0, 0xc1, 0xff, 0x7b, 0, 0x7e)},
    {"BF16", "[3]", "[1,-2.5,Infinity]", BYTES(0x80, 0x3f, 0x20, 0xc0, 0x80, 0x7f)},
    {"FP32", "[4]", "[1,-0.1,-Infinity,-0.0]",
     BYTES(0, 0, 0x80, 0x3f, 0xcd, 0xcc, 0xcc, 0xbd, 0, 0, 0x80, 0xff, 0, 0, 0, 0x80)},
    {"FP64", "[2]", "[1,5e-324]", BYTES(0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 1, 0, 0, 0, 0, 0, 0, 0)},
    {"BYTES", "[3]", "[\"ab\",\"\",\"\xc3\xa9\"]",
     BYTES(2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0, 2, 0, 0, 0, 0xc3, 0xa9)},
    // 16-bit floats are rounded once: ties to even, and to either side of a tie
    {"FP16", "[2]", "[1.00048828125,1.000488281250001]", BYTES(0, 0x3c, 1, 0x3c)},
    {"FP16", "[3]", "[65519.999999,-65519.999999,2.98023223876953125e-8]",
     BYTES(0xff, 0x7b, 0xff, 0xfb, 0, 0)},
    {"FP16", "[1]", "[2.9802322387695400e-8]", BYTES(1, 0)},
    {"BF16", "[3]", "[1.00390625,1.0039062500001,-1.0117187499999]",
     BYTES(0x80, 0x3f, 0x81, 0x3f, 0x81, 0xbf)},
    // strings: each escape, a NUL byte, a pair of surrogates
    {"BYTES", "[1]", "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
     BYTES(8, 0, 0, 0, '"', '\\', '/', 8, 12, 10, 13, 9)},
    {"BYTES", "[2]", "[\"\\u0000\\u00E9\",\"\\uD83D\\ude00\"]",
     BYTES(3, 0, 0, 0, 0, 0xc3, 0xa9, 4, 0, 0, 0, 0xf0, 0x9f, 0x98, 0x80)},
    {"BYTES", "[2]", "[[\"]\"],[\",\"]]", BYTES(1, 0, 0, 0, ']', 1, 0, 0, 0, ',')},
    // whole numbers in other clothes
    {"INT8", "[4]", "[1.0,1e2,-0,120E-1]", BYTES(1, 100, 0, 12)},
    // nested as the shape says, otherwise, and flat
    {"UINT8", "[2,2]", "[[1,2],[3,4]]", BYTES(1, 2, 3, 4)},
    {"UINT8", "[2,2]", "[1,2,3,4]", BYTES(1, 2, 3, 4)},
    {"UINT8", "[4]", "[[[1],2],[[3,[4]]]]", BYTES(1, 2, 3, 4)},
    {"UINT8", "[1]", "[[],[[1]],[]]", BYTES(1)},
    {"UINT8", "[]", "[7]", BYTES(7)},
    {"UINT8", "[2]", " [ \t1\r\n,\n2 ] ", BYTES(1, 2)},
};

static void assert_tensor(const char *text, const uint8_t *bytes, size_t size, const char *datatype)
{
  reading r = read_good(text);
  assert_int_equal(r.request.input_count, 1);
  const infer_json_input *input = &r.request.inputs[0];
  assert_string_equal(input->name, "x");
  assert_string_equal(TRITONSERVER_DataTypeString(input->datatype), datatype);
  assert_int_equal((uintptr_t)input->data % 64, 0);
  assert_int_equal(input->data_size, size);
  assert_memory_equal(input->data, bytes, size);
  assert_false(input->binary);
  finish(&r);
}

static void each_datatype_becomes_its_bytes(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(good_tensors) / sizeof(good_tensors[0]); i++) {
    char text[1024];
    snprintf(text, sizeof(text),
             "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":%s,\"data\":%s}]}",
             good_tensors[i].datatype, good_tensors[i].shape, good_tensors[i].data);
    assert_tensor(text, good_tensors[i].bytes, good_tensors[i].size, good_tensors[i].datatype);
  }
}

static void data_may_come_before_what_tells_how_to_read_it(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(good_tensors) / sizeof(good_tensors[0]); i++) {
    char text[1024];
    snprintf(text, sizeof(text),
             "{\"inputs\":[{\"data\":%s,\"shape\":%s,\"datatype\":\"%s\",\"name\":\"x\"}]}",
             good_tensors[i].data, good_tensors[i].shape, good_tensors[i].datatype);
    assert_tensor(text, good_tensors[i].bytes, good_tensors[i].size, good_tensors[i].datatype);
  }
}

static void integers_out_of_range_are_refused_with_place_value_and_range(void **state)
{
  (void)state;
  static const struct {
    const char *text, *value, *range;
  } cases[] = {
      {TENSOR("UINT8", "[2]", "[1,256]"), "'256]", "[0, 255]"},
      {TENSOR("UINT8", "[2]", "[1,-1]"), "'-1]", "[0, 255]"},
      {TENSOR("UINT16", "[2]", "[1,65536]"), "'65536]", "[0, 65535]"},
      {TENSOR("UINT32", "[2]", "[1,4294967296]"), "'4294967296]", "[0, 4294967295]"},
      {TENSOR("UINT64", "[2]", "[1,18446744073709551616]"), "'18446744073709551616]",
       "[0, 18446744073709551615]"},
      {TENSOR("UINT64", "[2]", "[1,-1]"), "'-1]", "[0, 18446744073709551615]"},
      {TENSOR("INT8", "[2]", "[1,128]"), "'128]", "[-128, 127]"},
      {TENSOR("INT8", "[2]", "[1,-129]"), "'-129]", "[-128, 127]"},
      {TENSOR("INT16", "[2]", "[1,32768]"), "'32768]", "[-32768, 32767]"},
      {TENSOR("INT32", "[2]", "[1,2147483648]"), "'2147483648]", "[-2147483648, 2147483647]"},
      {TENSOR("INT64", "[2]", "[1,9223372036854775808]"), "'9223372036854775808]",
       "[-9223372036854775808, 9223372036854775807]"},
      {TENSOR("INT64", "[2]", "[1,1e300]"), "'1e300]", "9223372036854775807]"},
      {TENSOR("FP16", "[2]", "[1,65520]"), "'65520]", "range of FP16"},
      {TENSOR("BF16", "[2]", "[1,3.4e38]"), "'3.4e38]", "range of BF16"},
      {TENSOR("FP32", "[2]", "[1,1e309]"), "'1e309]", "range of FP32"},
      {TENSOR("FP64", "[2]", "[1,-1e309]"), "'-1e309]", "range of FP64"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    ASSERT_REFUSED(cases[i].text, "Unable to parse 'data': attempt to access JSON ",
                   ": inputs[0].data[1]: expected ", cases[i].value, cases[i].range);
}

static void elements_of_another_kind_are_refused_in_tritons_words(void **state)
{
  (void)state;
  static const struct {
    const char *text, *kind;
  } cases[] = {
      {TENSOR("INT32", "[2]", "[1,1.5]"), "non-signed-integer as signed-integer"},
      {TENSOR("INT32", "[2]", "[1,NaN]"), "non-signed-integer as signed-integer"},
      {TENSOR("UINT8", "[2]", "[1,true]"), "non-unsigned-integer as unsigned-integer"},
      {TENSOR("UINT64", "[2]", "[1,\"1\"]"), "non-unsigned-integer as unsigned-integer"},
      {TENSOR("FP32", "[2]", "[1,\"1\"]"), "non-number as double"},
      {TENSOR("FP16", "[2]", "[1,null]"), "non-number as double"},
      {TENSOR("BOOL", "[2]", "[true,1]"), "non-boolean as boolean"},
      {TENSOR("FP64", "[2]", "[1,{}]"), "non-number as double"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    ASSERT_REFUSED(cases[i].text, "Unable to parse 'data': attempt to access JSON ", cases[i].kind,
                   ": inputs[0].data[1]: expected ", "at byte ");
  ASSERT_REFUSED(TENSOR("BYTES", "[2]", "[\"\",1]"),
                 "Unable to parse JSON bytes array: attempt to access JSON non-string as string: "
                 "inputs[0].data[1]: expected a string, got '1]");
}

static void data_must_hold_exactly_the_elements_of_the_shape(void **state)
{
  (void)state;
  const char *shape_differs =
      "Unable to parse 'data': Shape does not match true shape of 'data' field: inputs[0].data: ";
  ASSERT_REFUSED(TENSOR("INT8", "[3]", "[1,2]"), shape_differs, "expected 3 elements, got 2");
  ASSERT_REFUSED(TENSOR("INT8", "[2]", "[[1],[2],[3]]"), shape_differs, "expected 2 elements");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[]"), shape_differs, "expected 1 elements, got 0");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "1"), "'data'", "non-array as array: inputs[0].data: ");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "\"1\""), "'data'", "non-array as array");
  ASSERT_REFUSED(TENSOR("INT8", "[0]", "1"), "'data'", "non-array as array");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[1,]"), "inputs[0].data");
  ASSERT_REFUSED(TENSOR("INT8", "[2]", "[1 2]"), "',' or ']'");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[,1]"), "inputs[0].data");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[1}"), "',' or ']'");
  ASSERT_REFUSED(TENSOR("INT8", "[1]", "[01]"), "inputs[0].data[0]", "01");
}

// Refused for its size alone: the arena takes no block for it.
static void a_shape_that_the_text_cannot_hold_costs_no_memory(void **state)
{
  (void)state;
  static const char *const shapes[] = {"[1000000000]", "[4611686018427387904]", "[100000,100000]",
                                       "[9223372036854775807]"};
  static const char *const datatypes[] = {"FP64", "BYTES", "BOOL"};
  for (size_t i = 0; i < 4; i++)
    for (size_t k = 0; k < 3; k++) {
      char text[256], initial[2048];
      snprintf(text, sizeof(text),
               "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":%s,\"data\":[1,2,3]}]}",
               datatypes[k], shapes[i]);
      char *exact = calloc(1, strlen(text) + ZEROES_BEHIND);
      assert_non_null(exact);
      memcpy(exact, text, strlen(text));
      arena a;
      arena_init(&a, initial, sizeof(initial));
      infer_request_json request;
      error *e =
          infer_request_json_read((slice){exact, strlen(text)}, MAX_DATA, NULL, &a, &request);
      assert_non_null(e);
      assert_null(a.blocks);
      assert_non_null(strstr(error_message(e), "inputs[0].data"));
      error_free(e);
      arena_fini(&a);
      free(exact);
    }
}

// A few characters of text can describe a multiple of their size.
static void tensors_of_more_bytes_than_are_taken_are_refused(void **state)
{
  (void)state;
  char zeroes[4 * 513];
  char text[3 * sizeof(zeroes)];
  for (size_t i = 0; i < 513; i++)
    memcpy(zeroes + 2 * i, "0,", 2);
  zeroes[2 * 512 - 1] = '\0'; // 512 elements
  snprintf(text, sizeof(text), TENSOR("FP64", "[512]", "[%s]"), zeroes);
  reading r = read_good(text);
  assert_int_equal(r.request.json_data_size, MAX_DATA);
  finish(&r);
  snprintf(text, sizeof(text), TENSOR("FP64", "[513]", "[%s,0]"), zeroes);
  ASSERT_REFUSED(text, ": inputs[0].data: ", "'x'", "4104", "4096", "--http-max-input-size");
  char memory[2 * MAX_DATA]; // refused before there is memory for it
  arena a;
  infer_request_json request;
  arena_init(&a, memory, sizeof(memory));
  error *e = infer_request_json_read(slice_of(text), MAX_DATA, NULL, &a, &request);
  assert_non_null(e);
  assert_null(a.blocks);
  assert_true(a.next - memory < MAX_DATA);
  error_free(e);
  snprintf(text, sizeof(text),
           "{\"inputs\":[{\"name\":\"a\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":[1]},"
           "{\"data\":[%s],\"name\":\"b\",\"datatype\":\"FP64\",\"shape\":[512]}]}",
           zeroes);
  ASSERT_REFUSED(text, ": inputs[1].data: ", "'b'", "4096 bytes");
}

// before"0"behind,before"1"behind and so on
static void append_numbered(buffer *text, const char *before, const char *behind, int count)
{
  for (int i = 0; i < count; i++)
    buffer_append_format(text, "%s%s\"%d\"%s", i > 0 ? "," : "", before, i, behind);
}

static void tensors_and_dimensions_are_few(void **state)
{
  (void)state;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_text(&text, "{\"inputs\":[],\"outputs\":[");
  append_numbered(&text, "{\"name\":", "}", 4097);
  buffer_append(&text, "]}", 3);
  ASSERT_REFUSED(text.data, "'outputs[4096]'", "at most 4096 outputs");
  text.size = 0;
  buffer_append_text(&text, "{\"inputs\":[");
  append_numbered(&text, "{\"name\":", ",\"datatype\":\"INT8\",\"shape\":[0]}", 4097);
  buffer_append(&text, "]}", 3);
  ASSERT_REFUSED(text.data, "'inputs[4096]'", "at most 4096 inputs");
  text.size = 0;
  buffer_append_text(&text, "{\"inputs\":[],\"parameters\":{");
  append_numbered(&text, "", ":1", 4097);
  buffer_append(&text, "}}", 3);
  ASSERT_REFUSED(text.data, "'parameters.4096'", "at most 4096 parameters");
  text.size = 0;
  buffer_append_text(&text,
                     "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"INT8\",\"data\":[1],\"shape\":[");
  for (int i = 0; i < 65; i++)
    buffer_append_format(&text, "%s1", i > 0 ? "," : "");
  buffer_append(&text, "]}]}", 5);
  ASSERT_REFUSED(text.data, "'inputs[0].shape'", "at most 64 dimensions");
}

static void ids_have_an_end(void **state)
{
  (void)state;
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_text(&text, "{\"inputs\":[],\"id\":\"");
  for (int i = 0; i < 65536; i++)
    buffer_append_char(&text, 'i');
  buffer_append(&text, "\"}", 3);
  reading r = read_good(text.data);
  assert_int_equal(strlen(r.request.id), 65536);
  finish(&r);
  text.size -= 3;
  buffer_append(&text, "i\"}", 4);
  ASSERT_REFUSED(text.data, "'id'", "at most 65536 bytes");
}

static void shapes_are_lists_of_whole_numbers_whose_product_fits(void **state)
{
  (void)state;
  ASSERT_REFUSED(TENSOR("INT8", "[4294967296,4294967296]", "[1]"), "'inputs[0].shape'",
                 "exceed maximum size of 9223372036854775807");
  ASSERT_REFUSED(TENSOR("INT8", "[9223372036854775807,2]", "[1]"), "'inputs[0].shape'",
                 "exceed maximum size of 9223372036854775807");
  const char *unsigned_integer = "Unable to parse 'shape': attempt to access JSON "
                                 "non-unsigned-integer as unsigned-integer: inputs[0].shape[";
  ASSERT_REFUSED(TENSOR("INT8", "[-1]", "[1]"), unsigned_integer, "shape[0]: expected", "-1");
  ASSERT_REFUSED(TENSOR("INT8", "[1,1.5]", "[1]"), unsigned_integer, "shape[1]: expected", "1.5");
  ASSERT_REFUSED(TENSOR("INT8", "[\"1\"]", "[1]"), unsigned_integer, "\"1\"");
  ASSERT_REFUSED(TENSOR("INT8", "1", "[1]"), "'shape'", "non-array as array: inputs[0].shape: ");
  ASSERT_REFUSED(TENSOR("INT8", "[9223372036854775808]", "[1]"), unsigned_integer,
                 "an integer in [0, 9223372036854775807]");
}

static void tensors_without_elements_need_an_empty_array_or_nothing(void **state)
{
  (void)state;
  static const char *const texts[] = {
      TENSOR("FP32", "[0]", "[]"),
      TENSOR("FP32", "[2,0]", "[[],[]]"),
      TENSOR("BYTES", "[0]", "[]"),
      "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[3,0]}]}",
  };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    reading r = read_good(texts[i]);
    assert_int_equal(r.request.inputs[0].element_count, 0);
    assert_int_equal(r.request.inputs[0].data_size, 0);
    finish(&r);
  }
}

// ---- members ----

static const char everything[] =
    "{\"id\":\"r\\u00e91\",\"unknown\":{\"a\":[1,{\"b\":null}]},\n"
    " \"parameters\":{\"sequence_id\":7,\"sequence_start\":true,\"sequence_end\":false,\n"
    "  \"priority\":2,\"timeout\":1000000,\"binary_data_output\":true,\n"
    "  \"text\":\"s\",\"whole\":-5,\"flag\":false,\"real\":1.5},\n"
    " \"inputs\":[\n"
    "  {\"name\":\"a\",\"datatype\":\"INT16\",\"shape\":[1,2],\"data\":[[1,-2]],\"other\":0},\n"
    "  {\"name\":\"b\",\"datatype\":\"UINT8\",\"shape\":[3],\n"
    "   \"parameters\":{\"binary_data_size\":3,\"mine\":1}},\n"
    "  {\"name\":\"c\",\"datatype\":\"FP32\",\"shape\":[2],\"parameters\":\n"
    "   {\"shared_memory_region\":\"r\",\"shared_memory_offset\":8,"
    "\"shared_memory_byte_size\":16}}],\n"
    " \"outputs\":[{\"name\":\"o\"},\n"
    "  {\"name\":\"p\",\"parameters\":{\"binary_data\":false,\"classification\":3}},\n"
    "  {\"name\":\"q\",\"parameters\":{\"shared_memory_region\":\"r\","
    "\"shared_memory_byte_size\":4}}]}";

static void each_member_of_a_request_is_found(void **state)
{
  (void)state;
  reading all = read_good(everything);
  const infer_request_json *r = &all.request;
  assert_string_equal(r->id, "r\xc3\xa9"
                             "1");
  assert_int_equal(r->sequence_id, 7);
  assert_null(r->sequence_name);
  assert_true(r->sequence_start);
  assert_false(r->sequence_end);
  assert_int_equal(r->priority, 2);
  assert_int_equal(r->timeout_us, 1000000);
  assert_true(r->binary_output);
  assert_int_equal(r->input_count, 3);
  assert_int_equal(r->output_count, 3);
  finish(&all);
}

static void each_member_of_an_input_is_found(void **state)
{
  (void)state;
  reading all = read_good(everything);
  const infer_json_input *in = all.request.inputs;
  assert_string_equal(in[0].name, "a");
  assert_int_equal(in[0].datatype, TRITONSERVER_TYPE_INT16);
  assert_int_equal(in[0].shape_count, 2);
  assert_int_equal(in[0].shape[0], 1);
  assert_int_equal(in[0].shape[1], 2);
  assert_int_equal(in[0].element_count, 2);
  assert_memory_equal(in[0].data, ((int16_t[]){1, -2}), 4);
  assert_true(in[1].binary);
  assert_int_equal(in[1].binary_size, 3);
  assert_null(in[1].data);
  assert_string_equal(in[2].shared_memory.region, "r");
  assert_int_equal(in[2].shared_memory.offset, 8);
  assert_int_equal(in[2].shared_memory.byte_size, 16);
  finish(&all);
}

static void listed_outputs_are_binary_only_if_they_say_so(void **state)
{
  (void)state;
  reading all = read_good(everything);
  const infer_json_output *out = all.request.outputs;
  assert_false(out[0].binary);
  assert_false(out[1].binary);
  assert_int_equal(out[1].classification, 3);
  assert_string_equal(out[2].shared_memory.region, "r");
  finish(&all);
  all = read_good("{\"outputs\":[{\"name\":\"o\"},{\"name\":\"p\",\"parameters\":{\"binary_data\":"
                  "true}}],\"inputs\":[]}");
  assert_false(all.request.outputs[0].binary);
  assert_true(all.request.outputs[1].binary);
  finish(&all);
}

static void other_parameters_keep_their_types(void **state)
{
  (void)state;
  reading all = read_good(everything);
  const request_parameter *p = all.request.parameters.items;
  assert_int_equal(all.request.parameters.count, 4);
  assert_string_equal(p[0].name, "text");
  assert_int_equal(p[0].type, REQUEST_PARAMETER_STRING);
  assert_string_equal(p[0].value.string, "s");
  assert_int_equal(p[1].type, REQUEST_PARAMETER_INT64);
  assert_int_equal(p[1].value.integer, -5);
  assert_int_equal(p[2].type, REQUEST_PARAMETER_BOOL);
  assert_false(p[2].value.boolean);
  assert_int_equal(p[3].type, REQUEST_PARAMETER_DOUBLE);
  assert_true(p[3].value.real == 1.5);
  finish(&all);
  all = read_good("{\"inputs\":[],\"parameters\":{\"p\":9223372036854775808}}");
  p = all.request.parameters.items;
  assert_int_equal(p[0].type, REQUEST_PARAMETER_DOUBLE);
  assert_true(p[0].value.real == 0x1p63);
  finish(&all);
}

static void a_sequence_may_be_named_by_a_string(void **state)
{
  (void)state;
  reading r = read_good("{\"parameters\":{\"sequence_id\":\"corr\"},\"inputs\":[]}");
  assert_string_equal(r.request.sequence_name, "corr");
  assert_int_equal(r.request.sequence_id, 0);
  finish(&r);
  r = read_good("{\"parameters\":{\"sequence_id\":18446744073709551615},\"inputs\":[]}");
  assert_true(r.request.sequence_id == UINT64_MAX);
  finish(&r);
}

static void an_absent_id_is_empty(void **state)
{
  (void)state;
  reading r = read_good("{\"inputs\":[]}");
  assert_string_equal(r.request.id, "");
  assert_int_equal(r.request.output_count, 0);
  finish(&r);
}

static void missing_members_are_named_in_tritons_words(void **state)
{
  (void)state;
#define ABSENT(key)                                                                                \
  "Unable to parse '" key "': attempt to access non-existing object member '" key "': "
  ASSERT_REFUSED("{}", ABSENT("inputs"), "this member is missing");
  ASSERT_REFUSED("[]", ABSENT("inputs"), "expected an object, got '[]' at byte 0");
  ASSERT_REFUSED(INPUT("\"datatype\":\"INT8\",\"shape\":[1],\"data\":[1]"),
                 ABSENT("name") "inputs[0].name");
  ASSERT_REFUSED(INPUT("\"name\":\"x\",\"shape\":[1],\"data\":[1]"),
                 ABSENT("datatype") "inputs[0].datatype");
  ASSERT_REFUSED(INPUT("\"name\":\"x\",\"datatype\":\"INT8\",\"data\":[1]"),
                 ABSENT("shape") "inputs[0].shape");
  ASSERT_REFUSED("{\"inputs\":[],\"outputs\":[{}]}", ABSENT("name") "outputs[0].name");
  ASSERT_REFUSED("{\"inputs\":[],\"outputs\":[1]}", ABSENT("name") "outputs[0]", "an object");
}

static void an_input_has_its_data_in_exactly_one_place(void **state)
{
  (void)state;
  const char *rule = "Input must set only one of the following fields: 'data', 'binary_data_size' "
                     "in 'parameters', 'shared_memory_region' in 'parameters'. But";
  ASSERT_REFUSED(INPUT(X), "no field is set: inputs[0]: ", rule, "'x'");
  ASSERT_REFUSED("{\"inputs\":[1]}", "no field is set: inputs[0]: expected an object", rule);
  ASSERT_REFUSED(INPUT(X ",\"data\":[1],\"parameters\":{\"binary_data_size\":1}"), rule,
                 "set 'data' 'binary_data_size': inputs[0]: ");
  ASSERT_REFUSED(INPUT("\"parameters\":{\"binary_data_size\":1,\"shared_memory_region\":\"r\"}," X),
                 rule, "set 'binary_data_size' 'shared_memory_region'");
  ASSERT_REFUSED(INPUT(X ",\"data\":[1],\"parameters\":{\"shared_memory_region\":\"r\"}"), rule,
                 "set 'data' 'shared_memory_region'");
}

static void what_the_protocol_names_may_stand_once(void **state)
{
  (void)state;
  const char *once = "expected this member once";
  ASSERT_REFUSED("{\"inputs\":[],\"inputs\":[]}", "'inputs'", once);
  ASSERT_REFUSED("{\"id\":\"a\",\"id\":\"a\",\"inputs\":[]}", "'id'", once);
  ASSERT_REFUSED("{\"inputs\":[],\"outputs\":[],\"outputs\":[]}", "'outputs'", once);
  ASSERT_REFUSED("{\"inputs\":[],\"parameters\":{},\"parameters\":{}}", "'parameters'", once);
  ASSERT_REFUSED(INPUT(X ",\"name\":\"y\",\"data\":[1]"), "'inputs[0].name'", once);
  ASSERT_REFUSED(INPUT(X ",\"data\":[1],\"data\":[1]"), "'inputs[0].data'", once);
  ASSERT_REFUSED(INPUT("\"data\":[1],\"data\":[1]," X), "'inputs[0].data'", once);
  ASSERT_REFUSED(INPUT(X ",\"shape\":[1],\"data\":[1]"), "'inputs[0].shape'", once);
  ASSERT_REFUSED(INPUT(X ",\"datatype\":\"INT8\",\"data\":[1]"), "'inputs[0].datatype'", once);
  ASSERT_REFUSED("{\"inputs\":[],\"outputs\":[{\"name\":\"a\",\"name\":\"b\"}]}",
                 "'outputs[0].name'", once);
  ASSERT_REFUSED("{\"parameters\":{\"sequence_id\":1,\"sequence_id\":\"a\"},\"inputs\":[]}",
                 "'parameters.sequence_id'", once);
  ASSERT_REFUSED(INPUT(X ",\"parameters\":{\"binary_data_size\":1,\"binary_data_size\":1}"),
                 "'inputs[0].parameters.binary_data_size'", once);
  ASSERT_REFUSED("{\"inputs\":[],\"outputs\":[{\"name\":\"a\",\"parameters\":{\"binary_data\":true,"
                 "\"binary_data\":false}}]}",
                 "'outputs[0].parameters.binary_data'", once);
}

static void members_that_are_written_with_escapes_are_the_same_members(void **state)
{
  (void)state;
  ASSERT_REFUSED("{\"inputs\":[],\"in\\u0070uts\":[]}", "expected this member once");
}

static void values_of_another_kind_are_refused_by_name(void **state)
{
  (void)state;
  ASSERT_REFUSED("{\"inputs\":{}}", "'inputs'", "non-array as array", "'{}}'");
  ASSERT_REFUSED("{\"id\":7,\"inputs\":[]}", "'id'", "non-string as string", "'7,");
  ASSERT_REFUSED("{\"id\":null,\"inputs\":[]}", "'id'", "non-string as string", "null");
  ASSERT_REFUSED("{\"id\":\"a\\u0000\",\"inputs\":[]}", "'id'", "\\u0000");
  ASSERT_REFUSED(INPUT("\"datatype\":\"fp32\",\"shape\":[1],\"data\":[1],\"name\":\"x\""),
                 "invalid datatype for input x: inputs[0].datatype: ", "'fp32'", "FP32");
  ASSERT_REFUSED(INPUT("\"name\":\"x\",\"shape\":[1],\"datatype\":\"<invalid>\""),
                 "invalid datatype for input x: ");
  ASSERT_REFUSED("{\"inputs\":[],\"parameters\":[]}",
                 "failed to get request params.: attempt to get members for non-object: "
                 "parameters: expected an object, got '[]}'");
  ASSERT_REFUSED("{\"inputs\":[],\"outputs\":{}}", "'outputs'", "non-array as array");
}

static void parameters_are_checked_by_name(void **state)
{
  (void)state;
  static const struct {
    const char *members, *place, *reason;
  } cases[] = {
      {"\"sequence_id\":-1", "parameters.sequence_id: expected",
       "attempt to access JSON non-string as string"},
      {"\"sequence_id\":true", "parameters.sequence_id: expected",
       "a string or an integer in [0, 18446744073709551615]"},
      {"\"sequence_start\":1", "parameters.sequence_start: expected", "non-boolean as boolean"},
      {"\"sequence_end\":\"true\"", "parameters.sequence_end: expected", "non-boolean as boolean"},
      {"\"priority\":1.5", "parameters.priority: expected",
       "non-unsigned-integer as unsigned-integer"},
      {"\"timeout\":18446744073709551616", "parameters.timeout: expected",
       "[0, 18446744073709551615]"},
      {"\"binary_data_output\":0", "parameters.binary_data_output: expected",
       "non-boolean as boolean"},
      {"\"p\":{}", "parameters.p", "parameter 'p' has invalid type"},
      {"\"p\":null", "parameters.p", "It should be either 'int', 'bool', or 'string'."},
      {"\"p\":[1]", "parameters.p", "parameter 'p' has invalid type"},
      {"\"p\":1e999", "parameters.p",
       "parameters.p: expected one of these, or a number in the range of FP64"},
      {"\"triton_x\":1", "parameters.triton_x",
       "parameter keys starting with 'triton_' are reserved for Triton usage and should not be "
       "specified."},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[256];
    snprintf(text, sizeof(text), "{\"inputs\":[],\"parameters\":{%s}}", cases[i].members);
    ASSERT_REFUSED(text, cases[i].place, cases[i].reason);
  }
}

static void an_output_is_in_shared_memory_or_elsewhere(void **state)
{
  (void)state;
  ASSERT_REFUSED("{\"inputs\":[],\"outputs\":[{\"name\":\"o\",\"parameters\":{\"classification\":1,"
                 "\"shared_memory_region\":\"r\"}}]}",
                 "Output can't set both 'shared_memory_region' and 'classification': outputs[0]");
  ASSERT_REFUSED(
      "{\"inputs\":[],\"outputs\":[{\"name\":\"o\",\"parameters\":{\"classification\":-1}}"
      "]}",
      "Unable to set 'classification': attempt to access JSON non-unsigned-integer as "
      "unsigned-integer: outputs[0].parameters.classification: expected");
  ASSERT_REFUSED("{\"inputs\":[],\"outputs\":[{\"name\":\"o\",\"parameters\":{\"binary_data\":true,"
                 "\"shared_memory_region\":\"r\"}}]}",
                 "Output can't set both 'shared_memory_region' and 'binary_data': outputs[0]");
}

// ---- text that is no JSON ----

static void text_that_is_no_json_is_refused_with_what_stands_there(void **state)
{
  (void)state;
  static const struct {
    const char *text, *reason;
  } cases[] = {
      {"", "expected an object, got the end of the text at byte 0"},
      {" \n", "the end of the text at byte 2"},
      {"hello", "got 'hello' at byte 0"},
      {"{\"inputs\":[]} x", "expected the end of the text, got 'x' at byte 14"},
      {"{\"inputs\":[]}{", "expected the end of the text"},
      {"{'inputs':[]}", "a member's name in quotes, got ''inputs':[]}' at byte 1: write \" in"},
      {"{\"inputs\" []}", "expected ':'"},
      {"{\"inputs\":[],}", "expected a member's name in quotes, got '}' at byte 13: remove the "
                           "comma before it"},
      {"{\"a\":[1,2,\n],\"inputs\":[]}", "expected a value, got '],\"inputs\":[]}' at byte 11: "
                                         "remove the comma before it"},
      {"{\"inputs\":[]]", "expected ',' or '}'"},
      {"{\"a\":“u”}", "expected a value, got '“u”}' at byte 5: a typographic quote, write"},
      {"{\"a\":1.,\"inputs\":[]}", "expected a value"},
      {"{\"a\":[1}", "expected ',' or ']'"},
      {"{\"a\":{\"b\" 1}}", "expected ':'"},
      {"{\"id\":\"\\x\",\"inputs\":[]}", "an escape of JSON"},
      {"{\"id\":\"\\u12g4\",\"inputs\":[]}", "an escape of JSON"},
      {"{\"id\":\"\\ud800\",\"inputs\":[]}", "without lone surrogates"},
      {"{\"id\":\"\\ud800\\u0041\",\"inputs\":[]}", "without lone surrogates"},
      {"{\"id\":\"\\udc00\",\"inputs\":[]}", "without lone surrogates"},
      {"{\"id\":\"\\udc00\\udc00\",\"inputs\":[]}", "without lone surrogates"},
      {"{\"id\":\"\xff\",\"inputs\":[]}", "UTF-8"},
      {"{\"id\":\"\xc0\xaf\",\"inputs\":[]}", "UTF-8"},
      {"{\"id\":\"\xed\xa0\x80\",\"inputs\":[]}", "UTF-8"},
      {"{\"id\":\"\xf4\x90\x80\x80\",\"inputs\":[]}", "UTF-8"},
      {"{\"id\":\"\xe2\x82\",\"inputs\":[]}", "UTF-8"},
      {"{\"id\":\"a\nb\",\"inputs\":[]}", "in 'id': expected a line end in a string to be written "
                                          "\\n, got byte 0x0a at byte 8"},
      {"{\"id\":\"a\tb\",\"inputs\":[]}", "a tab in a string to be written \\t, got byte 0x09"},
      {"{\"id\":\"a\x01\",\"inputs\":[]}", "expected a control character in a string to be written "
                                           "\\u and four digits, got byte 0x01"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    ASSERT_REFUSED(cases[i].text, "failed to parse the request JSON buffer", cases[i].reason);
}

#define JSON_INPUT(more)                                                                           \
  "{\"inputs\":[{\"name\":\"A\",\"datatype\":\"INT32\",\"shape\":[2]," more "}]}"
#define BINARY_INPUT JSON_INPUT("\"parameters\":{\"binary_data_size\":8}")

// Not the count of elements, which would be right, and not the text's end.
static void the_mistake_is_named_and_not_what_follows_from_it(void **state)
{
  (void)state;
  ASSERT_REFUSED(JSON_INPUT("\"data\":[1,2,]"), "failed to parse the request JSON buffer",
                 "in 'inputs[0].data': expected an element, got ']}]}' at byte");
  ASSERT_REFUSED(JSON_INPUT("\"data\":[1,]"), "failed to parse the request JSON buffer",
                 "remove the comma before it");
  ASSERT_REFUSED(JSON_INPUT("\"data\":[[1],[2],]"), "failed to parse the request JSON buffer",
                 "expected an element, got ']}]}' at byte");
  ASSERT_REFUSED(JSON_INPUT("\"data\":[1,2,3]"), "Unable to parse 'data'", "got at least 3");
  ASSERT_REFUSED(BINARY_INPUT "\x01", "expected the end of the text, got byte 0x01",
                 "for binary data behind the JSON send the header "
                 "Inference-Header-Content-Length: 92");
}

static void assert_each_prefix_is_refused(const char *text, const char *behind)
{
  for (size_t size = 0; size < strlen(text); size++) {
    reading r = read_bytes(text, size, behind);
    if (r.error == NULL)
      fail_msg("the first %zu bytes were taken of %s", size, text);
    assert_int_equal(error_get_code(r.error), ERROR_INVALID_ARG);
    // What it says it got is what was there.
    if (size > 0 && behind[0] != '\0' && strstr(text, behind) == NULL)
      assert_null(strstr(error_message(r.error), behind));
    finish(&r);
  }
  reading whole = read_bytes(text, strlen(text), behind);
  assert_null(whole.error);
  finish(&whole);
}

// Behind the JSON part stand other bytes than zeroes: they must not complete what was cut.
static void text_that_is_cut_anywhere_is_refused(void **state)
{
  (void)state;
  static const char *const behind[] = {"", "12345678", "ue]}]}]}", "\"]}]}]}}"};
  for (size_t i = 0; i < 4; i++) {
    assert_each_prefix_is_refused(everything, behind[i]);
    for (size_t k = 0; k < sizeof(good_tensors) / sizeof(good_tensors[0]); k++) {
      char text[1024];
      snprintf(text, sizeof(text),
               "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"%s\",\"shape\":%s,\"data\":%s}]}",
               good_tensors[k].datatype, good_tensors[k].shape, good_tensors[k].data);
      assert_each_prefix_is_refused(text, behind[i]);
    }
  }
}

// `before`, then `open` `depth` times, "1", `close` as often, then `after`.
static reading read_nested(const char *before, const char *open, const char *close,
                           const char *after, size_t depth)
{
  AUTO_BUFFER buffer text = BUFFER_EMPTY;
  buffer_append_text(&text, before);
  for (size_t i = 0; i < depth; i++)
    buffer_append_text(&text, open);
  buffer_append_text(&text, "1");
  for (size_t i = 0; i < depth; i++)
    buffer_append_text(&text, close);
  buffer_append_text(&text, after);
  assert_false(text.failed);
  return read_bytes(text.data, text.size, "");
}

static void arrays_nest_100_deep_and_no_deeper(void **state)
{
  (void)state;
  static const struct {
    const char *before, *open, *close, *after;
  } cases[] = {
      {"{\"inputs\":[{\"name\":\"x\",\"datatype\":\"INT8\",\"shape\":[1],\"data\":", "[", "]",
       "}]}"},
      {"{\"inputs\":[{\"data\":", "[", "]",
       ",\"name\":\"x\",\"datatype\":\"INT8\",\"shape\":[1]}]}"},
      {"{\"inputs\":[],\"other\":", "[", "]", "}"},
      {"{\"inputs\":[],\"other\":", "{\"a\":", "}", "}"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    static const size_t depths[] = {100, 101, 200000};
    for (size_t k = 0; k < 3; k++) {
      reading r =
          read_nested(cases[i].before, cases[i].open, cases[i].close, cases[i].after, depths[k]);
      if (depths[k] == 100)
        assert_null(r.error);
      else
        assert_non_null(strstr(error_message(r.error),
                               "JSON nesting depth exceeds maximum allowed limit (100)"));
      finish(&r);
    }
  }
}

// ---- binary tensors ----

#define BINARY(name, size)                                                                         \
  "{\"name\":\"" name "\",\"datatype\":\"UINT8\",\"shape\":[1],\"parameters\":{\"binary_data_"     \
  "size\":" size "}}"

static error *split(reading *r, const char *binary)
{
  return binary_tensors_split(&r->request, "m",
                              (slice){binary, binary == NULL ? 0 : strlen(binary)});
}

static void binary_tensors_take_their_bytes_in_order(void **state)
{
  (void)state;
  const char *bytes = "abcde";
  reading r = read_good("{\"inputs\":[" BINARY("a", "2") "," BINARY(
      "none", "0") ",{\"name\":\"j\","
                   "\"datatype\":\"UINT8\",\"shape\":[1],\"data\":[9]}," BINARY("b", "3") "]}");
  assert_null(split(&r, bytes));
  const infer_json_input *in = r.request.inputs;
  assert_ptr_equal(in[0].data, bytes);
  assert_int_equal(in[0].data_size, 2);
  assert_int_equal(in[1].data_size, 0);
  assert_int_equal(*(const uint8_t *)in[2].data, 9);
  assert_ptr_equal(in[3].data, bytes + 2);
  assert_int_equal(in[3].data_size, 3);
  finish(&r);
  r = read_good("{\"inputs\":[" BINARY("none", "0") "]}");
  assert_null(split(&r, NULL));
  finish(&r);
}

static void binary_sizes_must_add_up(void **state)
{
  (void)state;
  static const struct {
    const char *text, *binary, *reason;
  } cases[] = {
      {"{\"inputs\":[" BINARY("a", "2") "," BINARY("b", "3") "]}", "abcd",
       "unexpected size for input 'b', expecting 1 additional bytes for model 'm': "},
      {"{\"inputs\":[" BINARY("a", "2") "]}", NULL, "(without it, the whole body is JSON)"},
      {"{\"inputs\":[" BINARY("a", "2") "]}", "abc",
       "unexpected additional input data for model 'm': 1 bytes"},
      {"{\"inputs\":[]}", "a", "unexpected additional input data for model 'm': 1 bytes"},
      {"{\"inputs\":[" BINARY("a", "1") "," BINARY("b", "18446744073709551615") "]}", "ab",
       "unexpected size for input 'b'"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    reading r = read_good(cases[i].text);
    error *e = split(&r, cases[i].binary);
    assert_non_null(e);
    assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
    if (strstr(error_message(e), cases[i].reason) == NULL)
      fail_msg("%s\nwithout: %s", error_message(e), cases[i].reason);
    error_free(e);
    finish(&r);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_datatype_becomes_its_bytes),
      cmocka_unit_test(data_may_come_before_what_tells_how_to_read_it),
      cmocka_unit_test(integers_out_of_range_are_refused_with_place_value_and_range),
      cmocka_unit_test(elements_of_another_kind_are_refused_in_tritons_words),
      cmocka_unit_test(data_must_hold_exactly_the_elements_of_the_shape),
      cmocka_unit_test(a_shape_that_the_text_cannot_hold_costs_no_memory),
      cmocka_unit_test(tensors_of_more_bytes_than_are_taken_are_refused),
      cmocka_unit_test(tensors_and_dimensions_are_few),
      cmocka_unit_test(ids_have_an_end),
      cmocka_unit_test(shapes_are_lists_of_whole_numbers_whose_product_fits),
      cmocka_unit_test(tensors_without_elements_need_an_empty_array_or_nothing),
      cmocka_unit_test(each_member_of_a_request_is_found),
      cmocka_unit_test(each_member_of_an_input_is_found),
      cmocka_unit_test(listed_outputs_are_binary_only_if_they_say_so),
      cmocka_unit_test(other_parameters_keep_their_types),
      cmocka_unit_test(a_sequence_may_be_named_by_a_string),
      cmocka_unit_test(an_absent_id_is_empty),
      cmocka_unit_test(missing_members_are_named_in_tritons_words),
      cmocka_unit_test(an_input_has_its_data_in_exactly_one_place),
      cmocka_unit_test(what_the_protocol_names_may_stand_once),
      cmocka_unit_test(members_that_are_written_with_escapes_are_the_same_members),
      cmocka_unit_test(values_of_another_kind_are_refused_by_name),
      cmocka_unit_test(parameters_are_checked_by_name),
      cmocka_unit_test(an_output_is_in_shared_memory_or_elsewhere),
      cmocka_unit_test(text_that_is_no_json_is_refused_with_what_stands_there),
      cmocka_unit_test(the_mistake_is_named_and_not_what_follows_from_it),
      cmocka_unit_test(text_that_is_cut_anywhere_is_refused),
      cmocka_unit_test(arrays_nest_100_deep_and_no_deeper),
      cmocka_unit_test(binary_tensors_take_their_bytes_in_order),
      cmocka_unit_test(binary_sizes_must_add_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
