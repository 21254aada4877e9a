// SPDX-License-Identifier: Apache-2.0
// What goes between host and worker: tensors, responses and requests are written as they are read,
// and what a worker cannot have meant is refused. The request and the response are the test's own.
#include "channel.h"
#include "codec/request_wire.h"
#include "codec/response_fill.h"
#include "codec/tensor_wire.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t DIMS[] = {2, 3};
static const char DATA[] = "0123456789abcdefghijklm"; // 24 bytes: 6 of FP32

static TRITONSERVER_Error *fault(const char *text)
{
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text);
}

static void expect_error(TRITONSERVER_Error *error, const char *text)
{
  assert_non_null(error);
  assert_string_equal(TRITONSERVER_ErrorMessage(error), text);
  TRITONSERVER_ErrorDelete(error);
}

// ---- the request: correlation "c", parameters, two inputs of which the second is empty

static TRITONSERVER_ParameterType second_parameter;

TRITONSERVER_Error *TRITONBACKEND_RequestId(TRITONBACKEND_Request *request, const char **id)
{
  (void)request;
  *id = "seven";
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request *request, uint64_t *id)
{
  (void)request, (void)id;
  return fault("it is a text");
}

TRITONSERVER_Error *TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request *request,
                                                             const char **id)
{
  (void)request;
  *id = "c";
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestFlags(TRITONBACKEND_Request *request, uint32_t *flags)
{
  (void)request;
  *flags = 3;
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request *request, uint64_t *timeout)
{
  (void)request;
  *timeout = 5;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request *request,
                                                     uint32_t *count)
{
  (void)request;
  *count = 1;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestOutputName(TRITONBACKEND_Request *request, uint32_t index,
                                                    const char **name)
{
  (void)request, (void)index;
  *name = "OUT";
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request *request,
                                                        uint32_t *count)
{
  (void)request;
  *count = 2;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestParameter(TRITONBACKEND_Request *request, uint32_t index,
                                                   const char **key,
                                                   TRITONSERVER_ParameterType *type,
                                                   const void **value)
{
  static const int64_t number = -4;
  (void)request;
  *key = index == 0 ? "number" : "text";
  *type = index == 0 ? TRITONSERVER_PARAMETER_INT : second_parameter;
  *value = index == 0 ? (const void *)&number : "t";
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestTrace(TRITONBACKEND_Request *request,
                                               TRITONSERVER_InferenceTrace **trace)
{
  (void)request, (void)trace;
  return fault("no tracing");
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request *request, uint32_t *count)
{
  (void)request;
  *count = 2;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInputName(TRITONBACKEND_Request *request, uint32_t index,
                                                   const char **name)
{
  (void)request;
  *name = index == 0 ? "IN" : "EMPTY";
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_RequestInput(TRITONBACKEND_Request *request, const char *name,
                                               TRITONBACKEND_Input **input)
{
  (void)request;
  *input = (TRITONBACKEND_Input *)(uintptr_t)name;
  return NULL;
}

TRITONSERVER_Error *
TRITONBACKEND_InputPropertiesForHostPolicy(TRITONBACKEND_Input *input, const char *host_policy,
                                           const char **name, TRITONSERVER_DataType *datatype,
                                           const int64_t **shape, uint32_t *dims_count,
                                           uint64_t *byte_size, uint32_t *buffer_count)
{
  static const int64_t none[] = {0};
  (void)host_policy;
  bool empty = strcmp((const char *)input, "EMPTY") == 0;
  *name = (const char *)input;
  *datatype = TRITONSERVER_TYPE_FP32;
  *shape = empty ? none : DIMS;
  *dims_count = empty ? 1 : 2;
  *byte_size = empty ? 0 : sizeof DATA;
  *buffer_count = empty ? 0 : 1;
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_InputBufferForHostPolicy(TRITONBACKEND_Input *input,
                                                           const char *host_policy, uint32_t index,
                                                           const void **buffer, uint64_t *byte_size,
                                                           TRITONSERVER_MemoryType *memory_type,
                                                           int64_t *memory_type_id)
{
  (void)input, (void)host_policy, (void)index;
  *buffer = DATA;
  *byte_size = sizeof DATA;
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
  return NULL;
}

// ---- the response

static char filled[64]; // the output's data
static char said[256];  // what was set

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
  va_list values;
  va_start(values, format);
  vsnprintf(said + strlen(said), sizeof said - strlen(said), format, values);
  va_end(values);
}

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *response,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 TRITONSERVER_DataType datatype,
                                                 const int64_t *shape, uint32_t rank)
{
  (void)response;
  *output = NULL;
  say("%s %s of rank %u, first %d;", name, TRITONSERVER_DataTypeString(datatype), rank,
      (int)shape[0]);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer,
                                               uint64_t byte_size,
                                               TRITONSERVER_MemoryType *memory_type, int64_t *id)
{
  (void)output, (void)id;
  assert_true(byte_size <= sizeof filled);
  *buffer = filled;
  *memory_type = TRITONSERVER_MEMORY_CPU;
  return NULL;
}

TRITONSERVER_Error *NEREID_ResponseUnconfiguredOutput(TRITONBACKEND_Response *response,
                                                      const char *name)
{
  (void)response;
  say("left out %s;", name);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSetIntParameter(TRITONBACKEND_Response *response,
                                                          const char *name, const int64_t value)
{
  (void)response;
  say("%s=%d;", name, (int)value);
  return NULL;
}

// ---- the channel: both sides in this process; the worker's region has room for what it sends

enum {
  REGION = 1 << 20
};

typedef struct sides {
  channel *host, *worker;
  uint64_t block; // of the worker
} sides;

static int set_up(void **state)
{
  sides *made = calloc(1, sizeof *made);
  assert_int_equal(channel_new(REGION, &made->host), 0);
  assert_int_equal(channel_attach(channel_descriptor(made->host), &made->worker), 0);
  assert_true(channel_allocate(made->worker, sizeof DATA, &made->block));
  memcpy(channel_own(made->worker, made->block), DATA, sizeof DATA);
  said[0] = '\0';
  second_parameter = TRITONSERVER_PARAMETER_STRING;
  *state = made;
  return 0;
}

static int tear_down(void **state)
{
  sides *made = *state;
  channel_free(made->worker);
  channel_free(made->host);
  free(made);
  return 0;
}

// ---- tensors

typedef struct sent_tensor {
  const char *name;
  uint32_t datatype;
  int64_t first;
  uint64_t offset, size;
} sent_tensor;

// Whether the host takes what the worker sends.
static bool is_taken(const sides *both, sent_tensor sent, wire_tensor *tensor)
{
  uint8_t control[1024];
  const int64_t dims[] = {sent.first, 3};
  wire_writer writer = {.to = control, .room = sizeof control};
  wire_tensor_write(&writer, sent.name, sent.datatype, dims, 2, sent.offset, sent.size);
  wire_reader reader = {.at = control, .end = control + writer.size};
  wire_tensor_read(&reader, both->host, tensor);
  return !reader.bad && reader.at == reader.end;
}

static void a_tensor_is_read_as_written_or_not_at_all(void **state)
{
  const sides *both = *state;
  const sent_tensor sound = {"IN", TRITONSERVER_TYPE_FP32, 2, both->block, sizeof DATA};
  char long_name[MAX_PROTOCOL_NAME + 2];
  wire_tensor tensor;
  assert_true(is_taken(both, sound, &tensor));
  assert_string_equal(tensor.name, "IN");
  assert_int_equal(tensor.shape.rank, 2);
  assert_int_equal(tensor.shape.dims[1], 3);
  assert_memory_equal(tensor.data, DATA, sizeof DATA);
  assert_true(wire_tensor_size_fits(&tensor));
  tensor.byte_size--;
  assert_false(wire_tensor_size_fits(&tensor));
  memset(long_name, 'x', sizeof long_name);
  long_name[sizeof long_name - 1] = '\0';
  sent_tensor wrong[] = {sound, sound, sound, sound, sound, sound};
  wrong[0].name = "";
  wrong[1].name = long_name;
  wrong[2].datatype = TRITONSERVER_TYPE_BF16 + 1;
  wrong[3].first = -1;
  wrong[4].offset = REGION;
  wrong[5].size = REGION + 1;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_false(is_taken(both, wrong[i], &tensor));
}

static void bytes_elements_fill_their_data(void **state)
{
  (void)state;
  const char two[] = "\1\0\0\0a\0\0\0\0";
  assert_true(wire_bytes_fit(two, 9, 2));
  assert_false(wire_bytes_fit(two, 9, 1));
  assert_false(wire_bytes_fit(two, 9, 3));
  assert_false(wire_bytes_fit(two, 8, 2));
}

// ---- parameters

static void parameters_become_json(void **state)
{
  (void)state;
  const int64_t number = INT64_MIN;
  const bool truth = true;
  const double real = 0.5, nan = NAN;
  json_t *list = json_array();
  json_array_append_new(list, parameter_to_json(TRITONSERVER_PARAMETER_STRING, "t"));
  json_array_append_new(list, parameter_to_json(TRITONSERVER_PARAMETER_INT, &number));
  json_array_append_new(list, parameter_to_json(TRITONSERVER_PARAMETER_BOOL, &truth));
  json_array_append_new(list, parameter_to_json(TRITONSERVER_PARAMETER_DOUBLE, &real));
  char *text = json_dumps(list, JSON_COMPACT);
  assert_string_equal(text, "[\"t\",-9223372036854775808,true,0.5]");
  assert_null(parameter_to_json(TRITONSERVER_PARAMETER_DOUBLE, &nan));
  assert_null(parameter_to_json(TRITONSERVER_PARAMETER_STRING, "\xff"));
  assert_null(parameter_to_json(TRITONSERVER_PARAMETER_BYTES, "b"));
  json_decref(list);
  free(text);
}

// ---- requests

static void expect_text(wire_reader *reader, const char *expected)
{
  size_t length;
  const char *text = wire_get_text(reader, &length);
  assert_int_equal(length, strlen(expected));
  assert_memory_equal(text, expected, length);
}

static void a_request_is_written_with_its_inputs(void **state)
{
  const sides *both = *state;
  request_facts facts;
  channel_message work = {.kind = WORK_EXECUTE};
  uint32_t culprit;
  wire_tensor input;
  assert_null(request_facts_read(NULL, "policy", false, &facts));
  facts.handle = 9;
  assert_null(request_wire_write(both->host, NULL, &facts, 1, &work, &culprit));
  const uint8_t *control = channel_other(both->worker, work.offset, work.size);
  wire_reader reader = {.at = control, .end = control + work.size};
  assert_int_equal(wire_get_u32(&reader), 1);
  assert_int_equal(wire_get_u64(&reader), 9);
  expect_text(&reader, "seven");
  assert_int_equal(wire_get_u8(&reader), 1); // the correlation is a text
  expect_text(&reader, "c");
  assert_int_equal(wire_get_u32(&reader), 3);
  assert_int_equal(wire_get_u64(&reader), 5);
  expect_text(&reader, "{\"number\":-4,\"text\":\"t\"}");
  expect_text(&reader, ""); // no trace
  assert_int_equal(wire_get_u32(&reader), 1);
  expect_text(&reader, "OUT");
  assert_int_equal(wire_get_u32(&reader), 2);
  wire_tensor_read(&reader, both->worker, &input);
  assert_string_equal(input.name, "IN");
  assert_memory_equal(input.data, DATA, sizeof DATA);
  wire_tensor_read(&reader, both->worker, &input);
  assert_string_equal(input.name, "EMPTY");
  assert_int_equal(input.byte_size, 0);
  assert_false(reader.bad);
  assert_ptr_equal(reader.at, reader.end);
  request_facts_fini(&facts);
}

static void a_request_that_cannot_be_written_says_why(void **state)
{
  const sides *both = *state;
  request_facts facts;
  channel_message work = {.kind = WORK_EXECUTE};
  uint32_t culprit;
  second_parameter = TRITONSERVER_PARAMETER_BYTES;
  expect_error(request_facts_read(NULL, "policy", false, &facts),
               "Unsupported parameter type for parameter 'text'.");
  second_parameter = TRITONSERVER_PARAMETER_STRING;
  assert_null(request_facts_read(NULL, "policy", false, &facts));
  facts.inputs[0].datatype = TRITONSERVER_TYPE_BYTES; // its data is no such elements
  expect_error(request_wire_write(both->host, NULL, &facts, 1, &work, &culprit),
               "input 'IN' is not the BYTES elements of its shape");
  assert_int_equal(culprit, 0);
  facts.inputs[0].byte_size = UINT64_MAX;
  TRITONSERVER_Error *error = request_wire_write(both->host, NULL, &facts, 1, &work, &culprit);
  assert_int_equal(TRITONSERVER_ErrorCode(error), TRITONSERVER_ERROR_UNAVAILABLE);
  assert_int_equal(culprit, 1); // none of them
  TRITONSERVER_ErrorDelete(error);
  size_t used, kept;
  channel_memory(both->host, &used, &kept);
  assert_int_equal(used, 0);
  request_facts_fini(&facts);
}

static struct {
  unsigned lends, lent, given_back; // `lends`: how many succeed
} on_devices;

bool __wrap_device_share_lend(device_share *self, uint64_t block, const device_range *range)
{
  (void)self, (void)block, (void)range;
  if (on_devices.lent == on_devices.lends)
    return false;
  on_devices.lent++;
  return true;
}

void __wrap_device_share_release(device_share *self, uint64_t block)
{
  (void)self, (void)block;
  on_devices.given_back += on_devices.lent;
}

void __wrap_device_share_give_back(device_share *self, const device_range *range)
{
  (void)self, (void)range;
  on_devices.given_back++;
}

// Both inputs have been placed.
static void what_cannot_all_be_lent_is_given_back_once(void **state)
{
  const sides *both = *state;
  request_facts facts;
  channel_message work = {.kind = WORK_EXECUTE};
  uint32_t culprit;
  size_t used, kept;
  assert_null(request_facts_read(NULL, "policy", false, &facts));
  for (unsigned lends = 0; lends < 2; lends++) {
    on_devices = (typeof(on_devices)){.lends = lends};
    free(facts.places);
    facts.places = calloc(2, sizeof *facts.places);
    facts.places[0] = facts.places[1] = (device_range){.memory = &facts, .device = -1};
    expect_error(request_wire_write(both->host, (device_share *)&facts, &facts, 1, &work, &culprit),
                 "no memory for a request's inputs");
    assert_int_equal(on_devices.given_back, 2);
    channel_memory(both->host, &used, &kept);
    assert_int_equal(used, 0);
  }
  request_facts_fini(&facts);
}

// ---- responses

// Fills the response with what the worker sends: parameters and the output `name` of DATA.
static TRITONSERVER_Error *fill(const sides *both, const char *parameters, const char *name,
                                uint32_t datatype, uint64_t size)
{
  static backend_tensor_config outputs[] = {{.name = "OUT"}};
  static state_signature states[] = {{"KEPT", TRITONSERVER_TYPE_FP32}};
  static const output_signature signature = {"m", outputs, 1, states, 1};
  uint8_t control[256];
  wire_writer writer = {.to = control, .room = sizeof control};
  wire_response head;
  said[0] = '\0';
  wire_put_u8(&writer, RESPONSE_TENSORS);
  wire_put_text(&writer, parameters, strlen(parameters));
  wire_put_u32(&writer, 1);
  wire_tensor_write(&writer, name, datatype, DIMS, 2, both->block, size);
  wire_reader reader = {.at = control, .end = control + writer.size}, skipped = reader;
  wire_response_read(&reader, &head);
  TRITONSERVER_Error *error =
      response_fill(NULL, NULL, &signature, both->host, NULL, &reader, &head);
  assert_ptr_equal(reader.at, reader.end); // past it, whatever is wrong
  wire_response_read(&skipped, &head);
  response_skip(both->host, &skipped, &head);
  assert_ptr_equal(skipped.at, skipped.end);
  return error;
}

static void a_response_is_filled_with_what_fits(void **state)
{
  const sides *both = *state;
  assert_null(fill(both, "{\"n\":4}", "OUT", TRITONSERVER_TYPE_FP32, sizeof DATA));
  assert_string_equal(said, "n=4;OUT FP32 of rank 2, first 2;");
  assert_memory_equal(filled, DATA, sizeof DATA);
  assert_null(fill(both, "", "OTHER", TRITONSERVER_TYPE_FP32, sizeof DATA));
  assert_string_equal(said, "left out OTHER;");
  expect_error(fill(both, "", "KEPT", TRITONSERVER_TYPE_FP32, sizeof DATA),
               "state 'KEPT' of model 'm' cannot be kept: the model is decoupled");
  expect_error(fill(both, "", "OUT", TRITONSERVER_TYPE_FP32, sizeof DATA - 1),
               "output 'OUT' of model 'm' has 23 bytes, which is not what its shape needs");
  expect_error(fill(both, "", "OUT", TRITONSERVER_TYPE_BYTES, sizeof DATA),
               "output 'OUT' of model 'm' is not the BYTES elements of its shape");
  expect_error(fill(both, "", "OUT", wire_on_device(TRITONSERVER_TYPE_FP32, 3), sizeof DATA),
               "output 'OUT' of model 'm' is not in the memory of GPU 3 that its worker shares");
  expect_error(fill(both, "", "OUT", wire_on_device(TRITONSERVER_TYPE_FP32, 0xfffffe), sizeof DATA),
               "output 'OUT' of model 'm' is not in the memory of GPU 16777214 that its worker "
               "shares");
  expect_error(fill(both, "[]", "OUT", TRITONSERVER_TYPE_FP32, sizeof DATA),
               "the parameters of a response are no JSON object");
  expect_error(fill(both, "{\"n\":null}", "OUT", TRITONSERVER_TYPE_FP32, sizeof DATA),
               "Expected key or value to be a string, integer, boolean or number in the response "
               "parameter 'n'");
}

static void an_error_is_the_response(void **state)
{
  const sides *both = *state;
  uint8_t control[64];
  wire_response head;
  wire_writer writer = {.to = control, .room = sizeof control};
  TRITONSERVER_Error *sent = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "not here");
  wire_error_response_write(&writer, sent);
  TRITONSERVER_ErrorDelete(sent);
  wire_reader reader = {.at = control, .end = control + writer.size};
  wire_response_read(&reader, &head);
  assert_int_equal(head.code, TRITONSERVER_ERROR_NOT_FOUND);
  expect_error(response_fill(NULL, NULL, NULL, both->host, NULL, &reader, &head), "not here");
  control[0] = RESPONSE_FAILED + 1;
  reader = (wire_reader){.at = control, .end = control + writer.size};
  wire_response_read(&reader, &head);
  assert_true(reader.bad);
  const output_signature signature = {.model = "m"};
  expect_error(response_fill(NULL, NULL, &signature, both->host, NULL, &reader, &head),
               "the Python worker of model 'm' gave a response that cannot be read");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(a_tensor_is_read_as_written_or_not_at_all),
      TEST(bytes_elements_fill_their_data),
      TEST(parameters_become_json),
      TEST(a_request_is_written_with_its_inputs),
      TEST(a_request_that_cannot_be_written_says_why),
      TEST(what_cannot_all_be_lent_is_given_back_once),
      TEST(a_response_is_filled_with_what_fits),
      TEST(an_error_is_the_response),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
