// SPDX-License-Identifier: Apache-2.0
// The faults of the faulty backend that are about one request: a table of names and what is done.
// Called on instance threads, or threads of others that run an instance.
#include "faulty.h"

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FINAL TRITONSERVER_RESPONSE_COMPLETE_FINAL
#define MANY  1000

typedef TRITONBACKEND_ModelInstance instance;
typedef TRITONBACKEND_Request request;
typedef TRITONBACKEND_Response response;
typedef TRITONBACKEND_ResponseFactory factory;

TRITONSERVER_Error *faulty_error(const char *what)
{
  char text[128];
  snprintf(text, sizeof(text), "faulty backend: %s", what);
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text);
}

void faulty_ignore(TRITONSERVER_Error *error_owned)
{
  TRITONSERVER_ErrorDelete(error_owned);
}

#define check faulty_ignore

// ---- parts of an answer ----

// NULL when there is none to be had: then the server answers in its place.
static response *new_response(request *r)
{
  response *made = NULL;
  check(TRITONBACKEND_ResponseNew(&made, r));
  return made;
}

static factory *new_factory(request *r)
{
  factory *made = NULL;
  check(TRITONBACKEND_ResponseFactoryNew(&made, r));
  return made;
}

static void send(response *made, uint32_t flags)
{
  if (made != NULL)
    check(TRITONBACKEND_ResponseSend(made, flags, NULL));
}

static void send_error(response *made, TRITONSERVER_Error *e)
{
  if (made != NULL)
    check(TRITONBACKEND_ResponseSend(made, FINAL, e));
  TRITONSERVER_ErrorDelete(e);
}

static void *get_buffer(TRITONBACKEND_Output *output, size_t size)
{
  TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
  int64_t memory_type_id = 0;
  void *buffer = NULL;
  if (output != NULL)
    check(TRITONBACKEND_OutputBuffer(output, &buffer, size, &memory_type, &memory_type_id));
  return buffer;
}

static void add_output(response *made, const char *name, TRITONSERVER_DataType type,
                       const int64_t *shape, uint32_t dims, const void *data, size_t size)
{
  TRITONBACKEND_Output *output = NULL;
  if (made == NULL)
    return;
  check(TRITONBACKEND_ResponseOutput(made, &output, name, type, shape, dims));
  void *buffer = get_buffer(output, size);
  if (buffer != NULL && size > 0)
    memcpy(buffer, data, size);
}

// Output Y of INT32 [1] = 7.
static void add_good(response *made)
{
  add_output(made, "Y", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1, &(int32_t){7}, 4);
}

static void send_good(response *made)
{
  add_good(made);
  send(made, FINAL);
}

static void answer_output(request *r, const char *name, TRITONSERVER_DataType type,
                          const int64_t *shape, uint32_t dims, const void *data, size_t size)
{
  response *made = new_response(r);
  add_output(made, name, type, shape, dims, data, size);
  send(made, FINAL);
}

static void answer_int32(request *r, const int64_t *shape, uint32_t dims)
{
  answer_output(r, "Y", TRITONSERVER_TYPE_INT32, shape, dims, &(int32_t){7}, 4);
}

#define FAULT(name) static void name(instance *i, request *r)
#define UNUSED      (void)i

// ---- how answers come ----

FAULT(good)
{
  UNUSED;
  send_good(new_response(r));
}

FAULT(nothing)
{
  UNUSED;
  (void)r;
}

FAULT(response_deleted)
{
  UNUSED;
  check(TRITONBACKEND_ResponseDelete(new_response(r)));
}

FAULT(double_final)
{
  UNUSED;
  response *first = new_response(r), *second = new_response(r);
  send_good(first);
  send_good(second);
}

FAULT(not_final)
{
  UNUSED;
  response *made = new_response(r);
  add_good(made);
  send(made, 0);
}

FAULT(two_answers)
{
  UNUSED;
  response *first = new_response(r), *second = new_response(r);
  add_good(first);
  send(first, 0);
  send_good(second);
}

FAULT(flags_only)
{
  UNUSED;
  factory *f = new_factory(r);
  check(TRITONBACKEND_ResponseFactorySendFlags(f, FINAL));
  check(TRITONBACKEND_ResponseFactoryDelete(f));
}

FAULT(flags_after_final)
{
  UNUSED;
  factory *f = new_factory(r);
  send_good(new_response(r));
  for (int n = 0; n < 3; n++)
    check(TRITONBACKEND_ResponseFactorySendFlags(f, FINAL));
  check(TRITONBACKEND_ResponseFactoryDelete(f));
}

FAULT(odd_flags)
{
  UNUSED;
  response *made = new_response(r);
  add_good(made);
  send(made, UINT32_MAX);
}

FAULT(output_after_final)
{
  UNUSED;
  response *first = new_response(r), *second = new_response(r);
  send_good(first);
  add_good(second);
  check(TRITONBACKEND_ResponseDelete(second));
}

FAULT(release_before_respond)
{
  UNUSED;
  factory *f = new_factory(r);
  response *made = NULL;
  check(TRITONBACKEND_RequestRelease(r, TRITONSERVER_REQUEST_RELEASE_ALL));
  check(TRITONBACKEND_ResponseNewFromFactory(&made, f));
  send_good(made);
  check(TRITONBACKEND_ResponseFactoryDelete(f));
}

FAULT(release_before_send)
{
  UNUSED;
  response *made = new_response(r);
  add_good(made);
  check(TRITONBACKEND_RequestRelease(r, TRITONSERVER_REQUEST_RELEASE_ALL));
  send(made, FINAL);
}

FAULT(released)
{
  UNUSED;
  send_good(new_response(r));
  check(TRITONBACKEND_RequestRelease(r, TRITONSERVER_REQUEST_RELEASE_ALL));
}

FAULT(released_unanswered)
{
  UNUSED;
  check(TRITONBACKEND_RequestRelease(r, TRITONSERVER_REQUEST_RELEASE_ALL));
}

FAULT(reschedule)
{
  UNUSED;
  check(TRITONBACKEND_RequestRelease(r, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE));
  send_good(new_response(r));
}

// ---- other threads ----

static void *answer_late(void *f)
{
  response *made;
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  check(TRITONBACKEND_ResponseNewFromFactory(&made, f));
  send_good(made);
  check(TRITONBACKEND_ResponseFactoryDelete(f));
  return NULL;
}

FAULT(late)
{
  UNUSED;
  pthread_t thread;
  if (pthread_create(&thread, NULL, answer_late, new_factory(r)) == 0)
    pthread_detach(thread);
}

static void *race_for_the_final_answer(void *f)
{
  response *made;
  check(TRITONBACKEND_ResponseNewFromFactory(&made, f));
  send_good(made);
  return NULL;
}

FAULT(eight_threads)
{
  UNUSED;
  pthread_t threads[8];
  factory *f = new_factory(r);
  for (int n = 0; n < 8; n++)
    pthread_create(&threads[n], NULL, race_for_the_final_answer, f);
  for (int n = 0; n < 8; n++)
    pthread_join(threads[n], NULL);
  check(TRITONBACKEND_ResponseFactoryDelete(f));
}

static void *answer_and_release(void *r)
{
  released(NULL, r);
  return NULL;
}

FAULT(foreign_release)
{
  UNUSED;
  pthread_t thread;
  if (pthread_create(&thread, NULL, answer_and_release, r) == 0)
    pthread_detach(thread); // the request may be gone when execute returns, or later
}

// ---- outputs ----

FAULT(no_outputs)
{
  UNUSED;
  send(new_response(r), FINAL);
}

FAULT(unknown_output)
{
  UNUSED;
  response *made = new_response(r);
  add_output(made, "NOT_AN_OUTPUT", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1, &(int32_t){7}, 4);
  send_good(made);
}

FAULT(empty_name)
{
  UNUSED;
  answer_output(r, "", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1, &(int32_t){7}, 4);
}

FAULT(long_name)
{
  UNUSED;
  static char name[1 << 20];
  memset(name, 'Y', sizeof(name) - 1);
  answer_output(r, name, TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1, &(int32_t){7}, 4);
}

FAULT(output_twice)
{
  UNUSED;
  response *made = new_response(r);
  add_good(made);
  send_good(made);
}

FAULT(wrong_datatype)
{
  UNUSED;
  answer_output(r, "Y", TRITONSERVER_TYPE_FP64, (int64_t[]){1}, 1, &(double){7}, 8);
}

FAULT(unknown_datatype)
{
  UNUSED;
  answer_output(r, "Y", (TRITONSERVER_DataType)99, (int64_t[]){1}, 1, &(int32_t){7}, 4);
}

FAULT(invalid_datatype)
{
  UNUSED;
  answer_output(r, "Y", TRITONSERVER_TYPE_INVALID, (int64_t[]){1}, 1, &(int32_t){7}, 4);
}

FAULT(lying_bytes)
{
  UNUSED;
  answer_output(r, "Y", TRITONSERVER_TYPE_BYTES, (int64_t[]){1}, 1,
                "\xff\xff\xff\xff"
                "abcd",
                8);
}

FAULT(cut_bytes)
{
  UNUSED;
  answer_output(r, "Y", TRITONSERVER_TYPE_BYTES, (int64_t[]){1}, 1, "\x01\x00", 2);
}

FAULT(short_buffer)
{
  UNUSED;
  answer_output(r, "Y", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1, "123", 3);
}

FAULT(long_buffer)
{
  UNUSED;
  answer_output(r, "Y", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1, "12345678", 8);
}

FAULT(empty_buffer)
{
  UNUSED;
  answer_output(r, "Y", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1, NULL, 0);
}

FAULT(no_buffer)
{
  UNUSED;
  TRITONBACKEND_Output *output;
  response *made = new_response(r);
  check(
      TRITONBACKEND_ResponseOutput(made, &output, "Y", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1));
  send(made, FINAL);
}

FAULT(buffer_twice)
{
  UNUSED;
  TRITONBACKEND_Output *output = NULL;
  response *made = new_response(r);
  check(
      TRITONBACKEND_ResponseOutput(made, &output, "Y", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1));
  memcpy(get_buffer(output, 4), &(int32_t){7}, 4);
  get_buffer(output, 1 << 20);
  send(made, FINAL);
}

FAULT(unfilled_buffer)
{
  UNUSED;
  TRITONBACKEND_Output *output = NULL;
  response *made = new_response(r);
  check(TRITONBACKEND_ResponseOutput(made, &output, "Y", TRITONSERVER_TYPE_INT32, (int64_t[]){MANY},
                                     1));
  get_buffer(output, MANY * sizeof(int32_t));
  send(made, FINAL);
}

FAULT(huge_buffer)
{
  UNUSED;
  TRITONBACKEND_Output *output = NULL;
  TRITONSERVER_MemoryType memory_type = TRITONSERVER_MEMORY_CPU;
  int64_t memory_type_id = 0;
  void *buffer;
  response *made = new_response(r);
  check(TRITONBACKEND_ResponseOutput(made, &output, "Y", TRITONSERVER_TYPE_INT32,
                                     (int64_t[]){INT64_MAX / 4}, 1));
  TRITONSERVER_Error *e =
      TRITONBACKEND_OutputBuffer(output, &buffer, SIZE_MAX - 8, &memory_type, &memory_type_id);
  send_error(made, e != NULL ? e : faulty_error("it gave me all of the memory"));
}

FAULT(gpu_buffer)
{
  UNUSED;
  TRITONBACKEND_Output *output = NULL;
  TRITONSERVER_MemoryType memory_type = (TRITONSERVER_MemoryType)77;
  int64_t memory_type_id = -5;
  void *buffer = NULL;
  response *made = new_response(r);
  check(
      TRITONBACKEND_ResponseOutput(made, &output, "Y", TRITONSERVER_TYPE_INT32, (int64_t[]){1}, 1));
  check(TRITONBACKEND_OutputBuffer(output, &buffer, 4, &memory_type, &memory_type_id));
  if (buffer != NULL)
    memcpy(buffer, &(int32_t){7}, 4);
  send(made, FINAL);
}

FAULT(negative_shape)
{
  UNUSED;
  answer_int32(r, (int64_t[]){-5}, 1);
}

FAULT(zero_shape)
{
  UNUSED;
  answer_output(r, "Y", TRITONSERVER_TYPE_INT32, (int64_t[]){0}, 1, NULL, 0);
}

FAULT(larger_shape)
{
  UNUSED;
  answer_int32(r, (int64_t[]){1000}, 1);
}

FAULT(overflowing_shape)
{
  UNUSED;
  const int64_t large = INT64_C(1) << 62;
  answer_int32(r, (int64_t[]){large, large, 16}, 3);
}

FAULT(wrapping_shape) // 2^64 + 1 elements
{
  UNUSED;
  answer_int32(r, (int64_t[]){274177, 67280421310721}, 2);
}

FAULT(no_dims)
{
  UNUSED;
  answer_int32(r, NULL, 0);
}

FAULT(many_dims)
{
  UNUSED;
  int64_t shape[MANY];
  for (int n = 0; n < MANY; n++)
    shape[n] = 1;
  answer_int32(r, shape, MANY);
}

// ---- parameters and errors ----

FAULT(many_parameters)
{
  UNUSED;
  response *made = new_response(r);
  for (int n = 0; n < MANY; n++) {
    char name[32];
    snprintf(name, sizeof(name), "p%d", n);
    check(TRITONBACKEND_ResponseSetIntParameter(made, name, n));
  }
  send_good(made);
}

FAULT(odd_parameters)
{
  UNUSED;
  response *made = new_response(r);
  check(TRITONBACKEND_ResponseSetStringParameter(made, "", "\xff\xfe\x01\"\\"));
  check(TRITONBACKEND_ResponseSetStringParameter(made, "\xc0\xaf\n", ""));
  check(TRITONBACKEND_ResponseSetDoubleParameter(made, "nan", nan("")));
  check(TRITONBACKEND_ResponseSetDoubleParameter(made, "inf", -INFINITY));
  check(TRITONBACKEND_ResponseSetIntParameter(made, "nan", INT64_MIN)); // of another type now
  send_good(made);
}

FAULT(error_response)
{
  UNUSED;
  send_error(new_response(r), faulty_error("error_response"));
}

FAULT(error_with_outputs)
{
  UNUSED;
  response *made = new_response(r);
  add_good(made);
  send_error(made, faulty_error("error_with_outputs"));
}

FAULT(long_error)
{
  UNUSED;
  static char text[1 << 20];
  memset(text, 'e', sizeof(text) - 1);
  send_error(new_response(r), TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, text));
}

FAULT(odd_error)
{
  UNUSED;
  send_error(new_response(r),
             TRITONSERVER_ErrorNew((TRITONSERVER_Error_Code)99, "%s%n \xff\xc0\xaf\x01\"\n"));
}

FAULT(empty_error)
{
  UNUSED;
  send_error(new_response(r), TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_UNKNOWN, ""));
}

// ---- asking for what is not there ----

// Counts what the server refused.
static void refused(int *count, TRITONSERVER_Error *e)
{
  *count += e != NULL;
  TRITONSERVER_ErrorDelete(e);
}

FAULT(out_of_bounds)
{
  UNUSED;
  int count = 0;
  char text[64];
  const char *name;
  const void *value;
  uint64_t size;
  TRITONSERVER_ParameterType type;
  TRITONSERVER_MemoryType memory_type;
  int64_t memory_id;
  TRITONBACKEND_Input *input = NULL;
  refused(&count, TRITONBACKEND_RequestParameter(r, 999, &name, &type, &value));
  refused(&count, TRITONBACKEND_RequestInputName(r, 999, &name));
  refused(&count, TRITONBACKEND_RequestOutputName(r, UINT32_MAX, &name));
  refused(&count, TRITONBACKEND_RequestInput(r, "NOT_AN_INPUT", &input));
  refused(&count, TRITONBACKEND_RequestInputByIndex(r, 999, &input));
  check(TRITONBACKEND_RequestInputByIndex(r, 0, &input));
  check(TRITONBACKEND_InputBuffer(input, 999, &value, &size, &memory_type, &memory_id));
  count += value == NULL && size == 0; // no error, but no bytes
  refused(&count, TRITONBACKEND_ModelInstanceProfileName(i, 999, &name));
  snprintf(text, sizeof(text), "%d refused", count);
  send_error(new_response(r), faulty_error(text));
}

static TRITONBACKEND_Model *model_of(instance *i)
{
  TRITONBACKEND_Model *model = NULL;
  check(TRITONBACKEND_ModelInstanceModel(i, &model));
  return model;
}

FAULT(late_configuration)
{
  TRITONSERVER_Message *config = NULL;
  check(TRITONBACKEND_ModelConfig(model_of(i), 1, &config));
  TRITONSERVER_Error *e = TRITONBACKEND_ModelSetConfig(model_of(i), 1, config);
  check(TRITONSERVER_MessageDelete(config));
  send_error(new_response(r), e != NULL ? e : faulty_error("it took it"));
}

FAULT(asks_the_server) // for its own model's state, in the middle of an execution
{
  TRITONSERVER_Server *server = NULL;
  TRITONSERVER_Message *message = NULL;
  bool ready;
  check(TRITONBACKEND_ModelServer(model_of(i), &server));
  check(TRITONSERVER_ServerModelStatistics(server, "", -1, &message));
  check(TRITONSERVER_MessageDelete(message));
  check(TRITONSERVER_ServerIsReady(server, &ready));
  send_good(new_response(r));
}

// ---- statistics ----

static void report(instance *i, request *r, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
  check(TRITONBACKEND_ModelInstanceReportStatistics(i, r, true, a, b, c, d));
  check(TRITONBACKEND_ModelInstanceReportBatchStatistics(i, 1, a, b, c, d));
  send_good(new_response(r));
}

FAULT(backward_statistics)
{
  report(i, r, 4000, 3000, 2000, 1000);
}

FAULT(future_statistics)
{
  report(i, r, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX);
}

FAULT(zero_statistics)
{
  report(i, r, 0, 0, 0, 0);
}

FAULT(repeated_statistics)
{
  for (int n = 0; n < MANY; n++)
    check(TRITONBACKEND_ModelInstanceReportStatistics(i, r, n % 2, 1, 2, 3, 4));
  send_good(new_response(r));
}

FAULT(batch_statistics)
{
  const uint64_t sizes[] = {0, 127, 128, 129, 1 << 20, INT64_MAX, UINT64_MAX};
  for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++)
    check(TRITONBACKEND_ModelInstanceReportBatchStatistics(i, sizes[n], 1, 2, 3, 4));
  send_good(new_response(r));
}

// ---- leaks ----

FAULT(leaked_response)
{
  UNUSED;
  add_good(new_response(r));
}

FAULT(leaked_factory)
{
  UNUSED;
  new_factory(r);
}

FAULT(leaked_second_response)
{
  UNUSED;
  response *kept = new_response(r);
  add_good(kept);
  send_good(new_response(r));
}

FAULT(leaked_mebibytes)
{
  UNUSED;
  enum {
    LEAKED = 4 << 20
  };
  void *memory = malloc(LEAKED);
  if (memory != NULL)
    memset(memory, 1, LEAKED); // it counts only once it is touched
  send_good(new_response(r));
}

FAULT(leaked_memory)
{
  TRITONBACKEND_Backend *backend;
  TRITONBACKEND_MemoryManager *manager;
  TRITONSERVER_Message *config;
  void *memory;
  check(TRITONBACKEND_ModelBackend(model_of(i), &backend));
  check(TRITONBACKEND_BackendMemoryManager(backend, &manager));
  check(TRITONBACKEND_MemoryManagerAllocate(manager, &memory, TRITONSERVER_MEMORY_CPU, 0, 1000));
  check(TRITONBACKEND_ModelConfig(model_of(i), 1, &config));
  TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INTERNAL, "nobody deletes this");
  send_good(new_response(r));
}

// ---- the table ----

static const faulty_answer answers[] = {
    {"good", good, RELEASE_AFTER, NULL}, // first: what an unknown name gives
    {"no_response", nothing, RELEASE_AFTER, NULL},
    {"response_deleted", response_deleted, RELEASE_AFTER, NULL},
    {"double_final", double_final, RELEASE_AFTER, NULL},
    {"not_final", not_final, RELEASE_AFTER, NULL},
    {"two_answers", two_answers, RELEASE_AFTER, NULL},
    {"flags_only", flags_only, RELEASE_AFTER, NULL},
    {"flags_after_final", flags_after_final, RELEASE_AFTER, NULL},
    {"odd_flags", odd_flags, RELEASE_AFTER, NULL},
    {"output_after_final", output_after_final, RELEASE_AFTER, NULL},
    {"release_before_respond", release_before_respond, RELEASE_NOT, NULL},
    {"release_before_send", release_before_send, RELEASE_NOT, NULL},
    {"reschedule", reschedule, RELEASE_AFTER, NULL},
    {"execute_error", nothing, RELEASE_NOT, "execute_error"},
    {"error_after_answer", good, RELEASE_NOT, "error_after_answer"},
    {"error_after_release", released, RELEASE_NOT, "error_after_release"},
    {"error_after_empty_release", released_unanswered, RELEASE_NOT, "error_after_empty_release"},
    {"late", late, RELEASE_AFTER, NULL},
    {"eight_threads", eight_threads, RELEASE_AFTER, NULL},
    {"foreign_release", foreign_release, RELEASE_NOT, NULL},
    {"no_outputs", no_outputs, RELEASE_AFTER, NULL},
    {"unknown_output", unknown_output, RELEASE_AFTER, NULL},
    {"empty_name", empty_name, RELEASE_AFTER, NULL},
    {"long_name", long_name, RELEASE_AFTER, NULL},
    {"output_twice", output_twice, RELEASE_AFTER, NULL},
    {"wrong_datatype", wrong_datatype, RELEASE_AFTER, NULL},
    {"unknown_datatype", unknown_datatype, RELEASE_AFTER, NULL},
    {"invalid_datatype", invalid_datatype, RELEASE_AFTER, NULL},
    {"lying_bytes", lying_bytes, RELEASE_AFTER, NULL},
    {"cut_bytes", cut_bytes, RELEASE_AFTER, NULL},
    {"short_buffer", short_buffer, RELEASE_AFTER, NULL},
    {"long_buffer", long_buffer, RELEASE_AFTER, NULL},
    {"empty_buffer", empty_buffer, RELEASE_AFTER, NULL},
    {"no_buffer", no_buffer, RELEASE_AFTER, NULL},
    {"buffer_twice", buffer_twice, RELEASE_AFTER, NULL},
    {"unfilled_buffer", unfilled_buffer, RELEASE_AFTER, NULL},
    {"huge_buffer", huge_buffer, RELEASE_AFTER, NULL},
    {"gpu_buffer", gpu_buffer, RELEASE_AFTER, NULL},
    {"negative_shape", negative_shape, RELEASE_AFTER, NULL},
    {"zero_shape", zero_shape, RELEASE_AFTER, NULL},
    {"larger_shape", larger_shape, RELEASE_AFTER, NULL},
    {"overflowing_shape", overflowing_shape, RELEASE_AFTER, NULL},
    {"wrapping_shape", wrapping_shape, RELEASE_AFTER, NULL},
    {"no_dims", no_dims, RELEASE_AFTER, NULL},
    {"many_dims", many_dims, RELEASE_AFTER, NULL},
    {"many_parameters", many_parameters, RELEASE_AFTER, NULL},
    {"odd_parameters", odd_parameters, RELEASE_AFTER, NULL},
    {"error_response", error_response, RELEASE_AFTER, NULL},
    {"error_with_outputs", error_with_outputs, RELEASE_AFTER, NULL},
    {"long_error", long_error, RELEASE_AFTER, NULL},
    {"odd_error", odd_error, RELEASE_AFTER, NULL},
    {"empty_error", empty_error, RELEASE_AFTER, NULL},
    {"out_of_bounds", out_of_bounds, RELEASE_AFTER, NULL},
    {"late_configuration", late_configuration, RELEASE_AFTER, NULL},
    {"asks_the_server", asks_the_server, RELEASE_AFTER, NULL},
    {"backward_statistics", backward_statistics, RELEASE_AFTER, NULL},
    {"future_statistics", future_statistics, RELEASE_AFTER, NULL},
    {"zero_statistics", zero_statistics, RELEASE_AFTER, NULL},
    {"repeated_statistics", repeated_statistics, RELEASE_AFTER, NULL},
    {"batch_statistics", batch_statistics, RELEASE_AFTER, NULL},
    {"leaked_request", nothing, RELEASE_NOT, NULL},
    {"leaked_answered_request", good, RELEASE_NOT, NULL},
    {"leaked_response", leaked_response, RELEASE_AFTER, NULL},
    {"leaked_factory", leaked_factory, RELEASE_AFTER, NULL},
    {"leaked_second_response", leaked_second_response, RELEASE_AFTER, NULL},
    {"leaked_memory", leaked_memory, RELEASE_AFTER, NULL},
    {"leaked_mebibytes", leaked_mebibytes, RELEASE_AFTER, NULL},
};

const faulty_answer *faulty_find(const char *name)
{
  for (size_t n = 0; n < sizeof(answers) / sizeof(answers[0]); n++)
    if (strcmp(name, answers[n].name) == 0)
      return &answers[n];
  return &answers[0];
}
