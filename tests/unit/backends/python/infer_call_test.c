// SPDX-License-Identifier: Apache-2.0
// An inference that a model asks for (calls/infer_call.c): what becomes the server's request, which
// replies the worker gets, and that all is let go of in whatever order it ends. The server is the
// test's own; it has one request at a time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "python_host.h"

#include "nereid/nereid.h"

#include <stdio.h>

static char request_made, response_made, model_made; // their addresses are the objects

static struct {
  char said[512];     // what the request was given
  const void *input;  // its data
  unsigned requests;  // alive
  unsigned responses; // alive
  unsigned submitted, cancelled, traces;
  bool is_decoupled, is_unknown, refuses;
  TRITONSERVER_Error *response_error;
  TRITONSERVER_InferenceRequestReleaseFn_t release;
  TRITONSERVER_InferenceResponseCompleteFn_t complete;
  TRITONSERVER_ResponseAllocatorAllocFn_t allocate;
  TRITONSERVER_ResponseAllocatorReleaseFn_t free_output;
  void *release_user, *complete_user, *allocate_user;
  void *buffer, *buffer_user; // of the first output
  size_t output_size;
  uint32_t further;                          // outputs, on a device
  void *further_buffer[2], *further_user[2]; // theirs
} server;

// What is taken of a device, in place of device_share.c.
static struct {
  unsigned taken, given_back, lent, lends; // `lends`: how many succeed
} devices;

bool __wrap_device_share_take(device_share *self, int device, size_t bytes, device_range *range);
bool __wrap_device_share_take(device_share *self, int device, size_t bytes, device_range *range)
{
  static char memory[16];
  (void)self, (void)bytes;
  *range = (device_range){.memory = memory + devices.taken, .device = device};
  devices.taken++;
  return true;
}

void __wrap_device_share_give_back(device_share *self, const device_range *range);
void __wrap_device_share_give_back(device_share *self, const device_range *range)
{
  (void)self, (void)range;
  devices.given_back++;
}

bool __wrap_device_share_lend(device_share *self, uint64_t block, const device_range *range);
bool __wrap_device_share_lend(device_share *self, uint64_t block, const device_range *range)
{
  (void)self, (void)block, (void)range;
  if (devices.lent == devices.lends)
    return false;
  devices.lent++;
  return true;
}

void __wrap_device_share_release(device_share *self, uint64_t block);
void __wrap_device_share_release(device_share *self, uint64_t block)
{
  (void)self, (void)block;
  devices.given_back += devices.lent;
  devices.lent = 0;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
  size_t length = strlen(server.said);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(server.said + length, sizeof server.said - length, format, arguments);
  va_end(arguments);
}

#define SETTER(name, type, format)                                                                 \
  TRITONSERVER_Error *TRITONSERVER_InferenceRequest##name(TRITONSERVER_InferenceRequest *request,  \
                                                          type value)                              \
  {                                                                                                \
    assert_ptr_equal(request, &request_made);                                                      \
    say(#name "=" format ";", value);                                                              \
    return NULL;                                                                                   \
  }
SETTER(SetId, const char *, "%s")
SETTER(SetCorrelationId, uint64_t, "%lu")
SETTER(SetCorrelationIdString, const char *, "%s")
SETTER(SetFlags, uint32_t, "%u")
SETTER(SetTimeoutMicroseconds, uint64_t, "%lu")
SETTER(SetPriorityUInt64, uint64_t, "%lu")
SETTER(AddRequestedOutput, const char *, "%s")

#define PARAMETER(kind, type, format)                                                              \
  TRITONSERVER_Error *TRITONSERVER_InferenceRequestSet##kind##Parameter(                           \
      TRITONSERVER_InferenceRequest *request, const char *key, type value)                         \
  {                                                                                                \
    (void)request;                                                                                 \
    say(#kind " %s=" format ";", key, value);                                                      \
    return NULL;                                                                                   \
  }
PARAMETER(String, const char *, "%s")
PARAMETER(Int, const int64_t, "%ld")
PARAMETER(Bool, const bool, "%d")
PARAMETER(Double, const double, "%g")

TRITONSERVER_Error *TRITONSERVER_ServerModelTransactionProperties(TRITONSERVER_Server *ignored,
                                                                  const char *model,
                                                                  const int64_t version,
                                                                  uint32_t *flags, void **voidp)
{
  (void)ignored, (void)model, (void)version, (void)voidp;
  if (server.is_unknown)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "unknown");
  *flags = server.is_decoupled ? TRITONSERVER_TXN_DECOUPLED : TRITONSERVER_TXN_ONE_TO_ONE;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestNew(TRITONSERVER_InferenceRequest **request,
                                                     TRITONSERVER_Server *ignored,
                                                     const char *model, const int64_t version)
{
  (void)ignored;
  say("%s/%d;", model, (int)version);
  server.requests++;
  *request = (TRITONSERVER_InferenceRequest *)&request_made;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAddInput(TRITONSERVER_InferenceRequest *request,
                                                          const char *name,
                                                          const TRITONSERVER_DataType datatype,
                                                          const int64_t *shape, uint64_t rank)
{
  (void)request;
  say("%s %s rank %d dim %d;", name, TRITONSERVER_DataTypeString(datatype), (int)rank,
      (int)shape[0]);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestAppendInputData(
    TRITONSERVER_InferenceRequest *request, const char *name, const void *base, size_t byte_size,
    TRITONSERVER_MemoryType memory_type, int64_t memory_type_id)
{
  (void)request, (void)name, (void)memory_type_id;
  assert_int_equal(memory_type, TRITONSERVER_MEMORY_CPU);
  say("%d bytes;", (int)byte_size);
  server.input = base;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetReleaseCallback(TRITONSERVER_InferenceRequest *request,
                                                TRITONSERVER_InferenceRequestReleaseFn_t release,
                                                void *user)
{
  (void)request;
  server.release = release;
  server.release_user = user;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetResponseCallback(
    TRITONSERVER_InferenceRequest *request, TRITONSERVER_ResponseAllocator *allocator,
    void *allocator_user, TRITONSERVER_InferenceResponseCompleteFn_t complete, void *user)
{
  (void)request, (void)allocator;
  server.complete = complete;
  server.complete_user = user;
  server.allocate_user = allocator_user;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_ResponseAllocatorNew(TRITONSERVER_ResponseAllocator **allocator,
                                  TRITONSERVER_ResponseAllocatorAllocFn_t allocate,
                                  TRITONSERVER_ResponseAllocatorReleaseFn_t release,
                                  TRITONSERVER_ResponseAllocatorStartFn_t start)
{
  (void)start;
  server.allocate = allocate;
  server.free_output = release;
  *allocator = (TRITONSERVER_ResponseAllocator *)&server;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_ResponseAllocatorSetQueryFunction(TRITONSERVER_ResponseAllocator *allocator,
                                               TRITONSERVER_ResponseAllocatorQueryFn_t query)
{
  (void)allocator, (void)query;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ResponseAllocatorDelete(TRITONSERVER_ResponseAllocator *allocator)
{
  (void)allocator;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestDelete(TRITONSERVER_InferenceRequest *request)
{
  (void)request;
  assert_int_equal(server.requests, 1);
  server.requests = 0;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestCancel(TRITONSERVER_InferenceRequest *request)
{
  (void)request;
  server.cancelled++;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_ServerInferAsync(TRITONSERVER_Server *ignored,
                                                  TRITONSERVER_InferenceRequest *request,
                                                  TRITONSERVER_InferenceTrace *trace)
{
  (void)ignored, (void)request;
  server.traces += trace != NULL;
  if (server.refuses)
    return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNAVAILABLE, "no place");
  server.submitted++;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceTraceSpawnChildTrace(TRITONSERVER_InferenceTrace *parent,
                                                               TRITONSERVER_InferenceTrace **child)
{
  *child = parent;
  return NULL;
}

const struct TRITONBACKEND_Model *
NEREID_InferenceRequestModel(TRITONSERVER_InferenceRequest *request)
{
  (void)request;
  return (const struct TRITONBACKEND_Model *)&model_made;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseError(TRITONSERVER_InferenceResponse *response)
{
  (void)response;
  TRITONSERVER_Error *error = server.response_error;
  server.response_error = NULL;
  return error;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceResponseParameterCount(TRITONSERVER_InferenceResponse *response,
                                             uint32_t *count)
{
  (void)response;
  *count = 1;
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceResponseParameter(TRITONSERVER_InferenceResponse *response,
                                        const uint32_t index, const char **name,
                                        TRITONSERVER_ParameterType *type, const void **value)
{
  (void)response, (void)index;
  *name = "key";
  *type = TRITONSERVER_PARAMETER_STRING;
  *value = "value";
  return NULL;
}

TRITONSERVER_Error *
TRITONSERVER_InferenceResponseOutputCount(TRITONSERVER_InferenceResponse *response, uint32_t *count)
{
  (void)response;
  *count = 1 + server.further;
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseOutput(
    TRITONSERVER_InferenceResponse *response, const uint32_t index, const char **name,
    TRITONSERVER_DataType *datatype, const int64_t **shape, uint64_t *rank, const void **base,
    size_t *byte_size, TRITONSERVER_MemoryType *memory_type, int64_t *memory_type_id, void **userp)
{
  static const int64_t dims[] = {8};
  (void)response;
  *name = "OUT";
  *datatype = TRITONSERVER_TYPE_UINT8;
  *shape = dims;
  *rank = 1;
  *base = index == 0 ? server.buffer : server.further_buffer[index - 1];
  *byte_size = server.output_size;
  *memory_type = TRITONSERVER_MEMORY_CPU;
  *memory_type_id = 0;
  *userp = index == 0 ? server.buffer_user : server.further_user[index - 1];
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceResponseDelete(TRITONSERVER_InferenceResponse *response)
{
  (void)response;
  assert_int_equal(server.responses, 1);
  server.responses = 0;
  if (server.buffer != NULL)
    server.free_output(NULL, server.buffer, server.buffer_user, server.output_size,
                       TRITONSERVER_MEMORY_CPU, 0);
  server.buffer = server.buffer_user = NULL;
  for (; server.further > 0; server.further--)
    server.free_output(NULL, server.further_buffer[server.further - 1],
                       server.further_user[server.further - 1], 8, TRITONSERVER_MEMORY_GPU, 0);
  return NULL;
}

// ---- what the server does

static void respond(uint32_t flags)
{
  server.responses = 1;
  server.complete((TRITONSERVER_InferenceResponse *)&response_made, flags, server.complete_user);
}

static void release(void)
{
  server.release((TRITONSERVER_InferenceRequest *)&request_made, TRITONSERVER_REQUEST_RELEASE_ALL,
                 server.release_user);
}

static TRITONSERVER_Error *allocate_output(size_t size)
{
  TRITONSERVER_MemoryType type;
  int64_t id;
  server.output_size = size;
  return server.allocate(NULL, "OUT", size, TRITONSERVER_MEMORY_CPU, 0, server.allocate_user,
                         &server.buffer, &server.buffer_user, &type, &id);
}

static void allocate_further(void)
{
  TRITONSERVER_MemoryType type;
  int64_t id;
  void **buffer = &server.further_buffer[server.further];
  assert_null(server.allocate(NULL, "OUT", 8, TRITONSERVER_MEMORY_GPU, 0, server.allocate_user,
                              buffer, &server.further_user[server.further], &type, &id));
  assert_int_equal(type, TRITONSERVER_MEMORY_GPU);
  server.further++;
}

// How many bytes of the host's region are in use.
static size_t used(void)
{
  size_t bytes, kept;
  channel_memory(host.link->channel, &bytes, &kept);
  return bytes;
}

// ---- what the worker says

static int begin(void **state)
{
  memset(&server, 0, sizeof server);
  memset(&devices, 0, sizeof devices);
  return host_begin(state);
}

static int end(void **state)
{
  assert_true(server.requests == 0 && server.responses == 0);
  if (host.calls != NULL)
    assert_false(CALLS.are_under_way(host.calls));
  return host_end(state);
}

static uint64_t data_at; // of the input, in the worker's region

static void infer(uint64_t id, uint32_t flags, uint64_t execution, const char *parameters,
                  uint64_t parent)
{
  assert_true(channel_allocate(host.worker, 8, &data_at));
  memcpy(channel_own(host.worker, data_at), "original", 8);
  wire_writer *said = host_say();
  wire_put_string(said, "other");
  wire_put_i64(said, -1);
  wire_put_string(said, "the id");
  wire_put_u8(said, 0);
  wire_put_u64(said, 42);
  wire_put_u32(said, 1);
  wire_put_u64(said, 1000);
  wire_put_u64(said, 3);
  wire_put_string(said, parameters);
  wire_put_u64(said, parent);
  wire_put_u32(said, 1);
  wire_put_string(said, "OUT");
  wire_put_u32(said, 1);
  wire_tensor_write(said, "IN", TRITONSERVER_TYPE_UINT8, (const int64_t[]){8}, 1, data_at, 8);
  assert_true(host_call(CALL_INFER, id, flags, execution));
}

// The next reply is the error of call `id`.
static void assert_error_response(uint64_t id, uint32_t code, const char *text)
{
  channel_message reply;
  wire_reader reader;
  assert_true(host_reply(&reply, &reader));
  assert_true(reply.id == id && reply.flags == REPLY_FINAL);
  assert_int_equal(wire_get_u8(&reader), RESPONSE_ERROR);
  assert_int_equal(wire_get_u32(&reader), code);
  assert_text(&reader, text);
}

static void the_request_is_what_the_worker_said(void **state)
{
  (void)state;
  infer(1, 0, 0, "{\"s\": \"t\", \"i\": 2, \"b\": true, \"d\": 0.5}", 0);
  assert_string_equal(server.said,
                      "other/-1;SetId=the id;SetCorrelationId=42;SetFlags=1;"
                      "SetTimeoutMicroseconds=1000;SetPriorityUInt64=3;String s=t;Int i=2;Bool "
                      "b=1;Double d=0.5;AddRequestedOutput=OUT;IN UINT8 rank 1 dim 8;8 bytes;");
  memcpy(channel_own(host.worker, data_at), "changed!", 8);
  assert_memory_equal(server.input, "original", 8); // a copy
  assert_true(CALLS.are_under_way(host.calls));
  release();
  respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL);
}

static void an_output_is_the_workers_from_its_reply_on(void **state)
{
  (void)state;
  channel_message reply;
  wire_reader reader;
  const size_t before = used();
  infer(1, 0, 0, "", 0);
  assert_null(allocate_output(8));
  memcpy(server.buffer, "computed", 8);
  respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  release();
  assert_true(host_reply(&reply, &reader));
  assert_true(reply.id == 1 && reply.kind == CALL_INFER && reply.flags == REPLY_FINAL);
  wire_response head;
  wire_tensor tensor;
  wire_response_read(&reader, &head);
  assert_int_equal(head.tensor_count, 1);
  assert_memory_equal(head.text, "{\"key\":\"value\"}", head.text_length);
  wire_tensor_read(&reader, host.worker, &tensor);
  assert_false(reader.bad);
  assert_string_equal(tensor.name, "OUT");
  assert_memory_equal(tensor.data, "computed", 8);
  uint64_t block;
  assert_true(used() > before);
  const char *own = (char *)tensor.data - (char *)channel_other(host.worker, 0, 1) +
                    (char *)channel_own(host.link->channel, 0);
  assert_true(channel_is_own(host.link->channel, own, &block));
  assert_true(channel_release(host.link->channel, block)); // nobody has done so
  assert_true(channel_release(host.link->channel, reply.offset));
  assert_int_equal(used(), before);
}

static void an_output_that_is_not_sent_is_released(void **state)
{
  (void)state;
  const size_t before = used();
  infer(1, 0, 0, "", 0);
  assert_null(allocate_output(8));
  server.response_error = TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_NOT_FOUND, "the model's");
  respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  release();
  channel_message reply;
  wire_reader reader;
  assert_true(host_reply(&reply, &reader));
  assert_int_equal(wire_get_u8(&reader), RESPONSE_ERROR);
  assert_int_equal(wire_get_u32(&reader), TRITONSERVER_ERROR_NOT_FOUND);
  assert_text(&reader, "the model's");
  assert_true(channel_release(host.link->channel, reply.offset));
  assert_int_equal(used(), before);
}

static void an_output_that_is_somewhere_else_is_an_error(void **state)
{
  (void)state;
  infer(1, 0, 0, "", 0);
  const size_t before = used();
  static char elsewhere[8];
  server.output_size = sizeof elsewhere;
  server.buffer = elsewhere;
  server.responses = 1;
  server.complete((TRITONSERVER_InferenceResponse *)&response_made, 0, server.complete_user);
  channel_message reply;
  wire_reader reader;
  assert_true(host_reply(&reply, &reader));
  assert_int_equal(wire_get_u8(&reader), RESPONSE_ERROR);
  wire_get_u32(&reader);
  assert_text(&reader, "output 'OUT' is not where it was to be");
  assert_true(channel_release(host.link->channel, reply.offset));
  assert_int_equal(used(), before);
  server.complete(NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL, server.complete_user);
  assert_error_response(1, TRITONSERVER_ERROR_INTERNAL, "Unexpected empty response.");
  release();
}

// The second of two tensors on a device cannot be lent: all are let go of.
static void outputs_that_cannot_be_lent_are_released(void **state)
{
  (void)state;
  channel_message reply;
  wire_reader reader;
  for (devices.lends = 0; devices.lends <= 2; devices.lends++) {
    const size_t before = used();
    devices.taken = devices.given_back = devices.lent = 0;
    infer(1, 0, 0, "", 0);
    assert_null(allocate_output(8));
    allocate_further();
    allocate_further();
    respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL);
    release();
    assert_true(host_reply(&reply, &reader) && reply.flags == REPLY_FINAL);
    const bool is_good = devices.lends == 2;
    assert_int_equal(wire_get_u8(&reader), is_good ? RESPONSE_TENSORS : RESPONSE_ERROR);
    assert_int_equal(devices.given_back, is_good ? 0 : 2);
    assert_int_equal(devices.lent, is_good ? 2 : 0);
    assert_true(worker_link_release(host.link, reply.offset));
    if (!is_good)
      assert_int_equal(used(), before);
  }
}

static void there_is_no_room_for_an_output_beyond_the_limit(void **state)
{
  (void)state;
  infer(1, 0, 0, "", 0);
  TRITONSERVER_Error *error = allocate_output(64 << 20);
  assert_int_equal(TRITONSERVER_ErrorCode(error), TRITONSERVER_ERROR_UNAVAILABLE);
  TRITONSERVER_ErrorDelete(error);
  assert_null(server.buffer_user);
  assert_null(allocate_output(0)); // needs none
  assert_null(server.buffer);
  respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  release();
}

static void decoupled_replies_come_until_the_final_one(void **state)
{
  (void)state;
  channel_message reply;
  wire_reader reader;
  server.is_decoupled = true;
  infer(1, INFER_DECOUPLED, 0, "", 0);
  release();
  for (int i = 0; i < 2; i++) {
    respond(0);
    assert_true(host_reply(&reply, &reader) && reply.flags == 0);
  }
  server.complete(NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL, server.complete_user);
  assert_true(host_reply(&reply, &reader) && reply.flags == REPLY_FINAL && reply.size == 0);
}

static void what_is_not_submitted_is_answered_and_freed(void **state)
{
  (void)state;
  server.is_unknown = true;
  infer(1, 0, 0, "", 0);
  assert_error_response(1, TRITONSERVER_ERROR_INTERNAL,
                        "Model other - Error when running inference: Failed for execute the "
                        "inference request. Model 'other' is not ready.");
  server.is_unknown = false;
  server.is_decoupled = true;
  infer(2, 0, 0, "", 0);
  channel_message reply;
  wire_reader reader;
  assert_true(host_reply(&reply, &reader) && wire_get_u8(&reader) == RESPONSE_ERROR);
  server.is_decoupled = false;
  infer(3, 0, 0, "[]", 0);
  assert_error_response(3, TRITONSERVER_ERROR_INVALID_ARG,
                        "Model other - Error when running inference: the parameters of a request "
                        "are no JSON object");
  infer(4, 0, 0, "{\"list\": []}", 0);
  assert_error_response(4, TRITONSERVER_ERROR_INVALID_ARG,
                        "Model other - Error when running inference: parameter 'list' must be a "
                        "string, a number or a bool");
  server.refuses = true;
  infer(5, 0, 0, "", 0);
  assert_error_response(5, TRITONSERVER_ERROR_UNAVAILABLE,
                        "Model other - Error when running inference: no place");
  wire_put_u32(host_say(), 100);
  host_call(CALL_INFER, 6, 0, 0);
  assert_error_response(6, TRITONSERVER_ERROR_INVALID_ARG,
                        "Model  - Error when running inference: an inference request cannot be "
                        "read");
  assert_int_equal(server.submitted, 0);
}

static void a_call_continues_the_trace_of_an_open_request(void **state)
{
  (void)state;
  open_request *parent;
  assert_true(request_table_add(&host.instance.requests, &parent, 1));
  parent->trace = (TRITONSERVER_InferenceTrace *)&server;
  const uint64_t handle = parent->handle;
  request_table_end(&host.instance.requests, parent);
  infer(1, 0, 0, "", handle + 1); // of nobody
  assert_int_equal(server.traces, 0);
  release();
  respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  infer(2, 0, 0, "", handle);
  assert_int_equal(server.traces, 1);
  release();
  respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  request_table_close(&host.instance.requests,
                      request_table_begin(&host.instance.requests, handle));
}

static void only_the_call_with_that_id_is_cancelled(void **state)
{
  (void)state;
  infer(1, 0, 0, "", 0);
  host_call(CALL_INFER_CANCEL, 2, 0, 0);
  assert_int_equal(server.cancelled, 0);
  host_call(CALL_INFER_CANCEL, 1, 0, 0);
  assert_int_equal(server.cancelled, 1);
  release();
  host_call(CALL_INFER_CANCEL, 1, 0, 0); // the request is not with us any more
  assert_int_equal(server.cancelled, 1);
  respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL);
}

static void the_end_of_the_worker_cancels_and_nobody_is_replied_to(void **state)
{
  (void)state;
  infer(1, 0, 0, "", 0);
  host_end_calls();
  assert_int_equal(server.cancelled, 1);
  assert_null(allocate_output(8)); // the channel is there as long as the call
  respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL);
  release();
  assert_no_reply();
}

// The model calls itself: its only instance waits for the reply.
static void a_call_that_closes_a_circle_is_cancelled_and_answered_once(void **state)
{
  (void)state;
  host.instance.node = (wait_node){.model = (void *)&model_made, .name = "played", .version = 1};
  wait_graph_join(&host.instance.node);
  infer(1, INFER_WAITS, 7, "", 0);
  assert_int_equal(server.cancelled, 1);
  channel_message reply;
  wire_reader reader;
  assert_true(host_reply(&reply, &reader) && reply.flags == REPLY_FINAL);
  assert_int_equal(wire_get_u8(&reader), RESPONSE_ERROR);
  respond(TRITONSERVER_RESPONSE_COMPLETE_FINAL); // the server's answer is not sent
  release();
  assert_no_reply();
  server.is_decoupled = true;
  infer(2, INFER_DECOUPLED, 0, "", 0); // for which nobody waits
  assert_no_reply();
  wire_put_u64(host_say(), 0);
  host_call(CALL_INFER_WAIT, 2, INFER_WAITS, 8); // until now
  assert_true(host_reply(&reply, &reader) && reply.id == 2 && reply.flags == REPLY_FINAL);
  release();
  server.complete(NULL, TRITONSERVER_RESPONSE_COMPLETE_FINAL, server.complete_user);
  assert_no_reply();
  wait_graph_leave(&host.instance.node);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_request_is_what_the_worker_said, begin, end),
      cmocka_unit_test_setup_teardown(an_output_is_the_workers_from_its_reply_on, begin, end),
      cmocka_unit_test_setup_teardown(an_output_that_is_not_sent_is_released, begin, end),
      cmocka_unit_test_setup_teardown(an_output_that_is_somewhere_else_is_an_error, begin, end),
      cmocka_unit_test_setup_teardown(outputs_that_cannot_be_lent_are_released, begin, end),
      cmocka_unit_test_setup_teardown(there_is_no_room_for_an_output_beyond_the_limit, begin, end),
      cmocka_unit_test_setup_teardown(decoupled_replies_come_until_the_final_one, begin, end),
      cmocka_unit_test_setup_teardown(what_is_not_submitted_is_answered_and_freed, begin, end),
      cmocka_unit_test_setup_teardown(a_call_continues_the_trace_of_an_open_request, begin, end),
      cmocka_unit_test_setup_teardown(only_the_call_with_that_id_is_cancelled, begin, end),
      cmocka_unit_test_setup_teardown(the_end_of_the_worker_cancels_and_nobody_is_replied_to, begin,
                                      end),
      cmocka_unit_test_setup_teardown(a_call_that_closes_a_circle_is_cancelled_and_answered_once,
                                      begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
