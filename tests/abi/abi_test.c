// SPDX-License-Identifier: Apache-2.0
// The self-contained part of the C ABI, used as an embedding program uses it: through the public
// headers and libtritonserver.so.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "triton/core/tritonbackend.h"
#include "triton/core/tritoncache.h"
#include "triton/core/tritonrepoagent.h"
#include "triton/core/tritonserver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void assert_success(TRITONSERVER_Error *error)
{
  if (error != NULL)
    fail_msg("%s", TRITONSERVER_ErrorMessage(error));
}

static void assert_error(TRITONSERVER_Error *error, TRITONSERVER_Error_Code code, const char *text)
{
  assert_non_null(error);
  assert_int_equal(TRITONSERVER_ErrorCode(error), code);
  assert_string_equal(TRITONSERVER_ErrorMessage(error), text);
  TRITONSERVER_ErrorDelete(error);
}

static void each_interface_tells_its_version(void **state)
{
  (void)state;
  uint32_t major = 99, minor = 99;
  assert_success(TRITONSERVER_ApiVersion(&major, &minor));
  assert_int_equal(major, 1);
  assert_int_equal(minor, 34);
  assert_success(TRITONBACKEND_ApiVersion(&major, &minor));
  assert_int_equal(major, 1);
  assert_int_equal(minor, 19);
  assert_success(TRITONCACHE_ApiVersion(&major, &minor));
  assert_int_equal(major, 0);
  assert_int_equal(minor, 1);
  assert_success(TRITONREPOAGENT_ApiVersion(&major, &minor));
  assert_int_equal(major, 0);
  assert_int_equal(minor, 1);
}

static void an_error_keeps_its_code_and_a_copy_of_its_text(void **state)
{
  (void)state;
  static const char *const words[] = {"Unknown",          "Internal",    "Not found",
                                      "Invalid argument", "Unavailable", "Unsupported",
                                      "Already exists",   "Cancelled"};
  for (int code = TRITONSERVER_ERROR_UNKNOWN; code <= TRITONSERVER_ERROR_CANCELLED; code++) {
    char text[] = "100% of 'x' %s";
    TRITONSERVER_Error *error = TRITONSERVER_ErrorNew((TRITONSERVER_Error_Code)code, text);
    text[0] = 'X';
    assert_string_equal(TRITONSERVER_ErrorCodeString(error), words[code]);
    assert_error(error, (TRITONSERVER_Error_Code)code, "100% of 'x' %s");
  }
  TRITONSERVER_ErrorDelete(NULL);
}

static void data_types_have_names_and_sizes(void **state)
{
  (void)state;
  static const struct {
    TRITONSERVER_DataType type;
    const char *name;
    uint32_t size;
  } rows[] = {
      {TRITONSERVER_TYPE_BOOL, "BOOL", 1},     {TRITONSERVER_TYPE_UINT8, "UINT8", 1},
      {TRITONSERVER_TYPE_UINT16, "UINT16", 2}, {TRITONSERVER_TYPE_UINT32, "UINT32", 4},
      {TRITONSERVER_TYPE_UINT64, "UINT64", 8}, {TRITONSERVER_TYPE_INT8, "INT8", 1},
      {TRITONSERVER_TYPE_INT16, "INT16", 2},   {TRITONSERVER_TYPE_INT32, "INT32", 4},
      {TRITONSERVER_TYPE_INT64, "INT64", 8},   {TRITONSERVER_TYPE_FP16, "FP16", 2},
      {TRITONSERVER_TYPE_FP32, "FP32", 4},     {TRITONSERVER_TYPE_FP64, "FP64", 8},
      {TRITONSERVER_TYPE_BYTES, "BYTES", 0},   {TRITONSERVER_TYPE_BF16, "BF16", 2},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    assert_string_equal(TRITONSERVER_DataTypeString(rows[i].type), rows[i].name);
    assert_int_equal(TRITONSERVER_StringToDataType(rows[i].name), rows[i].type);
    assert_int_equal(TRITONSERVER_DataTypeByteSize(rows[i].type), rows[i].size);
  }
}

static void unknown_data_types_are_invalid_not_a_crash(void **state)
{
  (void)state;
  static const char *const names[] = {"",       "fp32",      "FP3",      "FP32 ",
                                      "STRING", "TYPE_FP32", "<invalid>"};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    assert_int_equal(TRITONSERVER_StringToDataType(names[i]), TRITONSERVER_TYPE_INVALID);
  assert_string_equal(TRITONSERVER_DataTypeString((TRITONSERVER_DataType)15), "<invalid>");
  assert_string_equal(TRITONSERVER_DataTypeString((TRITONSERVER_DataType)-1), "<invalid>");
  assert_int_equal(TRITONSERVER_DataTypeByteSize((TRITONSERVER_DataType)15), 0);
}

static void enumerators_have_names(void **state)
{
  (void)state;
  assert_string_equal(TRITONSERVER_MemoryTypeString(TRITONSERVER_MEMORY_CPU), "CPU");
  assert_string_equal(TRITONSERVER_MemoryTypeString(TRITONSERVER_MEMORY_CPU_PINNED), "CPU_PINNED");
  assert_string_equal(TRITONSERVER_MemoryTypeString(TRITONSERVER_MEMORY_GPU), "GPU");
  assert_string_equal(TRITONSERVER_MemoryTypeString((TRITONSERVER_MemoryType)3), "<invalid>");
  assert_string_equal(TRITONSERVER_ParameterTypeString(TRITONSERVER_PARAMETER_DOUBLE), "DOUBLE");
  assert_string_equal(TRITONSERVER_ParameterTypeString((TRITONSERVER_ParameterType)9), "<invalid>");
  assert_string_equal(TRITONSERVER_InstanceGroupKindString(TRITONSERVER_INSTANCEGROUPKIND_MODEL),
                      "MODEL");
  assert_string_equal(TRITONSERVER_InstanceGroupKindString((TRITONSERVER_InstanceGroupKind)4),
                      "<invalid>");
  assert_string_equal(TRITONSERVER_InferenceTraceLevelString(TRITONSERVER_TRACE_LEVEL_TENSORS),
                      "TENSORS");
  assert_string_equal(TRITONSERVER_InferenceTraceLevelString((TRITONSERVER_InferenceTraceLevel)3),
                      "<unknown>");
  assert_string_equal(TRITONSERVER_InferenceTraceActivityString(TRITONSERVER_TRACE_REQUEST_END),
                      "REQUEST_END");
  assert_string_equal(
      TRITONSERVER_InferenceTraceActivityString((TRITONSERVER_InferenceTraceActivity)11),
      "<unknown>");
}

static void a_parameter_is_made_of_each_type_but_bytes(void **state)
{
  (void)state;
  int64_t integer = -5;
  bool boolean = true;
  double real = 0.5;
  TRITONSERVER_Parameter *parameters[] = {
      TRITONSERVER_ParameterNew("s", TRITONSERVER_PARAMETER_STRING, "text"),
      TRITONSERVER_ParameterNew("empty", TRITONSERVER_PARAMETER_STRING, ""),
      TRITONSERVER_ParameterNew("i", TRITONSERVER_PARAMETER_INT, &integer),
      TRITONSERVER_ParameterNew("b", TRITONSERVER_PARAMETER_BOOL, &boolean),
      TRITONSERVER_ParameterNew("d", TRITONSERVER_PARAMETER_DOUBLE, &real),
      TRITONSERVER_ParameterBytesNew("bytes", "\0\1\2", 3),
  };
  for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
    assert_non_null(parameters[i]);
    TRITONSERVER_ParameterDelete(parameters[i]);
  }
  assert_null(TRITONSERVER_ParameterNew("x", TRITONSERVER_PARAMETER_BYTES, "abc"));
  assert_null(TRITONSERVER_ParameterNew("x", (TRITONSERVER_ParameterType)5, "abc"));
  TRITONSERVER_ParameterDelete(NULL);
}

static void a_message_keeps_a_copy_of_exactly_the_bytes_given(void **state)
{
  (void)state;
  char json[] = {'{', '"', 'a', '"', ':', '1', '}', '!'};
  TRITONSERVER_Message *message = NULL;
  assert_success(TRITONSERVER_MessageNewFromSerializedJson(&message, json, 7));
  json[0] = 'X';
  const char *base = NULL;
  size_t size = 0;
  assert_success(TRITONSERVER_MessageSerializeToJson(message, &base, &size));
  assert_int_equal(size, 7);
  assert_memory_equal(base, "{\"a\":1}", 7);
  assert_success(TRITONSERVER_MessageDelete(message));
}

static void buffer_attributes_start_empty_on_the_cpu_and_keep_what_is_set(void **state)
{
  (void)state;
  TRITONSERVER_BufferAttributes *attributes = NULL;
  assert_success(TRITONSERVER_BufferAttributesNew(&attributes));
  TRITONSERVER_MemoryType type = TRITONSERVER_MEMORY_GPU;
  int64_t id = 7;
  size_t size = 7;
  void *handle = &id;
  assert_success(TRITONSERVER_BufferAttributesMemoryType(attributes, &type));
  assert_success(TRITONSERVER_BufferAttributesMemoryTypeId(attributes, &id));
  assert_success(TRITONSERVER_BufferAttributesByteSize(attributes, &size));
  assert_success(TRITONSERVER_BufferAttributesCudaIpcHandle(attributes, &handle));
  assert_int_equal(type, TRITONSERVER_MEMORY_CPU);
  assert_int_equal(id, 0);
  assert_int_equal(size, 0);
  assert_null(handle);

  char ipc[64];
  memset(ipc, 0x5a, sizeof(ipc));
  assert_success(TRITONSERVER_BufferAttributesSetMemoryType(attributes, TRITONSERVER_MEMORY_GPU));
  assert_success(TRITONSERVER_BufferAttributesSetMemoryTypeId(attributes, 3));
  assert_success(TRITONSERVER_BufferAttributesSetByteSize(attributes, SIZE_MAX));
  assert_success(TRITONSERVER_BufferAttributesSetCudaIpcHandle(attributes, ipc));
  assert_success(TRITONSERVER_BufferAttributesMemoryType(attributes, &type));
  assert_success(TRITONSERVER_BufferAttributesMemoryTypeId(attributes, &id));
  assert_success(TRITONSERVER_BufferAttributesByteSize(attributes, &size));
  assert_success(TRITONSERVER_BufferAttributesCudaIpcHandle(attributes, &handle));
  assert_int_equal(type, TRITONSERVER_MEMORY_GPU);
  assert_int_equal(id, 3);
  assert_true(size == SIZE_MAX);
  assert_ptr_not_equal(handle, ipc);
  assert_memory_equal(handle, ipc, sizeof(ipc));
  assert_success(TRITONSERVER_BufferAttributesDelete(attributes));
}

static void a_response_allocator_is_made_and_released(void **state)
{
  (void)state;
  TRITONSERVER_ResponseAllocator *allocator = NULL;
  assert_success(TRITONSERVER_ResponseAllocatorNew(&allocator, NULL, NULL, NULL));
  assert_non_null(allocator);
  assert_success(TRITONSERVER_ResponseAllocatorSetQueryFunction(allocator, NULL));
  assert_success(TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(allocator, NULL));
  assert_success(TRITONSERVER_ResponseAllocatorDelete(allocator));
}

// --- the log

static char *read_file(const char *path)
{
  static char content[4096];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  size_t size = fread(content, 1, sizeof(content) - 1, file);
  content[size] = '\0';
  fclose(file);
  return content;
}

static void the_logs_settings_work_without_options_and_at_once(void **state)
{
  (void)state;
  char path[] = "/tmp/nereid_abi_test_XXXXXX";
  int descriptor = mkstemp(path);
  assert_true(descriptor >= 0);
  close(descriptor);
  assert_success(TRITONSERVER_ServerOptionsSetLogFile(NULL, path));

  assert_true(TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_INFO));
  assert_false(TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE));
  assert_success(TRITONSERVER_ServerOptionsSetLogVerbose(NULL, 1));
  assert_true(TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE));
  assert_success(TRITONSERVER_ServerOptionsSetLogVerbose(NULL, -1));
  assert_false(TRITONSERVER_LogIsEnabled(TRITONSERVER_LOG_VERBOSE));

  assert_success(
      TRITONSERVER_LogMessage(TRITONSERVER_LOG_WARN, "/build/dir/a.cc", 12, "two\nlines"));
  assert_success(TRITONSERVER_ServerOptionsSetLogInfo(NULL, false));
  assert_success(TRITONSERVER_LogMessage(TRITONSERVER_LOG_INFO, "a.cc", 13, "not written"));
  assert_success(TRITONSERVER_ServerOptionsSetLogInfo(NULL, true));
  assert_success(TRITONSERVER_ServerOptionsSetLogFormat(NULL, TRITONSERVER_LOG_ISO8601));
  assert_success(TRITONSERVER_LogMessage(TRITONSERVER_LOG_ERROR, "b.cc", 14, "third"));
  assert_success(TRITONSERVER_ServerOptionsSetLogFormat(NULL, TRITONSERVER_LOG_DEFAULT));
  assert_success(TRITONSERVER_ServerOptionsSetLogFile(NULL, NULL));

  const char *content = read_file(path);
  assert_int_equal(content[0], 'W');
  assert_non_null(strstr(content, " a.cc:12] \"two\\nlines\"\n20"));
  assert_non_null(strstr(content, "Z E "));
  assert_non_null(strstr(content, " b.cc:14] \"third\"\n"));
  assert_null(strstr(content, "not written"));
  assert_null(strstr(content, "/build/dir"));
  unlink(path);
}

static void a_log_file_that_cannot_be_opened_is_an_error_that_names_it(void **state)
{
  (void)state;
  TRITONSERVER_Error *error =
      TRITONSERVER_ServerOptionsSetLogFile(NULL, "/nonexistent/directory/log.txt");
  assert_non_null(error);
  assert_non_null(strstr(TRITONSERVER_ErrorMessage(error), "/nonexistent/directory/log.txt"));
  TRITONSERVER_ErrorDelete(error);
}

static void an_unknown_log_level_or_format_is_refused(void **state)
{
  (void)state;
  assert_false(TRITONSERVER_LogIsEnabled((TRITONSERVER_LogLevel)4));
  assert_error(TRITONSERVER_LogMessage((TRITONSERVER_LogLevel)4, "a.c", 1, "x"),
               TRITONSERVER_ERROR_INVALID_ARG, "unknown logging level '4'");
  assert_error(TRITONSERVER_ServerOptionsSetLogFormat(NULL, (TRITONSERVER_LogFormat)3),
               TRITONSERVER_ERROR_INVALID_ARG, "unknown log format '3'");
}

// --- server options

static TRITONSERVER_ServerOptions *options;

static int make_options(void **state)
{
  (void)state;
  assert_success(TRITONSERVER_ServerOptionsNew(&options));
  return 0;
}

static int delete_options(void **state)
{
  (void)state;
  assert_success(TRITONSERVER_ServerOptionsDelete(options));
  return 0;
}

static void every_option_takes_a_proper_value(void **state)
{
  (void)state;
  assert_success(TRITONSERVER_ServerOptionsSetServerId(options, "one"));
  assert_success(TRITONSERVER_ServerOptionsSetServerId(options, "two"));
  assert_success(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, "/models"));
  assert_success(TRITONSERVER_ServerOptionsSetModelRepositoryPath(options, "/models"));
  assert_success(
      TRITONSERVER_ServerOptionsSetModelControlMode(options, TRITONSERVER_MODEL_CONTROL_EXPLICIT));
  assert_success(TRITONSERVER_ServerOptionsSetStartupModel(options, "*"));
  assert_success(TRITONSERVER_ServerOptionsSetStrictModelConfig(options, false));
  assert_success(TRITONSERVER_ServerOptionsSetModelConfigName(options, "h100"));
  assert_success(
      TRITONSERVER_ServerOptionsSetRateLimiterMode(options, TRITONSERVER_RATE_LIMIT_EXEC_COUNT));
  assert_success(TRITONSERVER_ServerOptionsAddRateLimiterResource(options, "r", 4, -1));
  assert_success(TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize(options, 0));
  for (int device = 0; device < 20; device++) {
    assert_success(TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize(options, device, 1));
    assert_success(TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize(options, device, 1));
  }
  assert_success(TRITONSERVER_ServerOptionsSetResponseCacheByteSize(options, 0));
  assert_success(TRITONSERVER_ServerOptionsSetResponseCacheByteSize(options, UINT64_MAX));
  assert_success(TRITONSERVER_ServerOptionsSetCacheConfig(options, "redis", "{}"));
  assert_success(TRITONSERVER_ServerOptionsSetCacheDirectory(options, "/c"));
  assert_success(TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability(options, 7.5));
  assert_success(TRITONSERVER_ServerOptionsSetExitOnError(options, false));
  assert_success(TRITONSERVER_ServerOptionsSetStrictReadiness(options, false));
  assert_success(TRITONSERVER_ServerOptionsSetExitTimeout(options, 1));
  assert_success(TRITONSERVER_ServerOptionsSetBufferManagerThreadCount(options, 2));
  assert_success(TRITONSERVER_ServerOptionsSetModelLoadThreadCount(options, 3));
  assert_success(TRITONSERVER_ServerOptionsSetModelLoadRetryCount(options, 4));
  assert_success(TRITONSERVER_ServerOptionsSetModelNamespacing(options, true));
  assert_success(TRITONSERVER_ServerOptionsSetEnablePeerAccess(options, true));
  assert_success(TRITONSERVER_ServerOptionsSetLogWarn(options, true));
  assert_success(TRITONSERVER_ServerOptionsSetLogError(options, true));
  assert_success(TRITONSERVER_ServerOptionsSetMetrics(options, false));
  assert_success(TRITONSERVER_ServerOptionsSetGpuMetrics(options, false));
  assert_success(TRITONSERVER_ServerOptionsSetCpuMetrics(options, false));
  assert_success(TRITONSERVER_ServerOptionsSetMetricsInterval(options, 500));
  assert_success(TRITONSERVER_ServerOptionsSetBackendDirectory(options, "/b"));
  assert_success(TRITONSERVER_ServerOptionsSetRepoAgentDirectory(options, "/r"));
  assert_success(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(
      options, TRITONSERVER_INSTANCEGROUPKIND_GPU, 0, 0.5));
  assert_success(TRITONSERVER_ServerOptionsSetBackendConfig(options, "", "k", "v"));
  assert_success(TRITONSERVER_ServerOptionsSetHostPolicy(options, "p", "numa-node", "0"));
  assert_success(TRITONSERVER_ServerOptionsSetHostPolicy(options, "p", "cpu-cores", "0-3"));
  assert_success(
      TRITONSERVER_ServerOptionsSetMetricsConfig(options, "", "summary_latencies", "true"));
}

static void options_out_of_range_are_refused_with_value_and_range(void **state)
{
  (void)state;
  const TRITONSERVER_InstanceGroupKind gpu = TRITONSERVER_INSTANCEGROUPKIND_GPU;
  assert_error(
      TRITONSERVER_ServerOptionsSetModelControlMode(options, (TRITONSERVER_ModelControlMode)3),
      TRITONSERVER_ERROR_INVALID_ARG, "unknown control mode '3'");
  assert_error(TRITONSERVER_ServerOptionsSetRateLimiterMode(options, (TRITONSERVER_RateLimitMode)2),
               TRITONSERVER_ERROR_INVALID_ARG, "unknown rate limit mode '2'");
  assert_error(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(options, gpu, -1, 0.5),
               TRITONSERVER_ERROR_INVALID_ARG, "expects device ID >= 0, got -1");
  assert_error(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(options, gpu, 0, 1.5),
               TRITONSERVER_ERROR_INVALID_ARG,
               "expects limit fraction to be in range [0.0, 1.0], got 1.500000");
  assert_error(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit(
                   options, TRITONSERVER_INSTANCEGROUPKIND_CPU, 0, 0.5),
               TRITONSERVER_ERROR_INVALID_ARG, "given device kind is not supported, got: CPU");
  assert_error(TRITONSERVER_ServerOptionsSetHostPolicy(options, "p", "color", "red"),
               TRITONSERVER_ERROR_UNSUPPORTED,
               "Unsupported host policy setting 'color' is specified, supported settings are "
               "'numa-node', 'cpu-cores'");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_interface_tells_its_version),
      cmocka_unit_test(an_error_keeps_its_code_and_a_copy_of_its_text),
      cmocka_unit_test(data_types_have_names_and_sizes),
      cmocka_unit_test(unknown_data_types_are_invalid_not_a_crash),
      cmocka_unit_test(enumerators_have_names),
      cmocka_unit_test(a_parameter_is_made_of_each_type_but_bytes),
      cmocka_unit_test(a_message_keeps_a_copy_of_exactly_the_bytes_given),
      cmocka_unit_test(buffer_attributes_start_empty_on_the_cpu_and_keep_what_is_set),
      cmocka_unit_test(a_response_allocator_is_made_and_released),
      cmocka_unit_test(the_logs_settings_work_without_options_and_at_once),
      cmocka_unit_test(a_log_file_that_cannot_be_opened_is_an_error_that_names_it),
      cmocka_unit_test(an_unknown_log_level_or_format_is_refused),
      cmocka_unit_test_setup_teardown(every_option_takes_a_proper_value, make_options,
                                      delete_options),
      cmocka_unit_test_setup_teardown(options_out_of_range_are_refused_with_value_and_range,
                                      make_options, delete_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
