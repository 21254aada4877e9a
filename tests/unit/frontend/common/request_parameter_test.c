// SPDX-License-Identifier: Apache-2.0
// Named parameters of requests: each kind of value under each name.
#include "frontend/common/json/request_parameter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "errors.h"

// ---- the seam: it notes what a request is given ----

static char noted[256];

__attribute__((format(printf, 1, 2))) static TRITONSERVER_Error *note(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(noted, sizeof(noted), format, arguments);
  va_end(arguments);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetCorrelationId(TRITONSERVER_InferenceRequest *r,
                                                                  uint64_t id)
{
  (void)r;
  return note("sequence %llu", (unsigned long long)id);
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetCorrelationIdString(TRITONSERVER_InferenceRequest *r,
                                                    const char *id)
{
  (void)r;
  return note("sequence '%s'", id);
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetPriorityUInt64(TRITONSERVER_InferenceRequest *r,
                                                                   uint64_t priority)
{
  (void)r;
  return note("priority %llu", (unsigned long long)priority);
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(TRITONSERVER_InferenceRequest *r,
                                                    uint64_t timeout_us)
{
  (void)r;
  return note("timeout %llu", (unsigned long long)timeout_us);
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetStringParameter(TRITONSERVER_InferenceRequest *r, const char *key,
                                                const char *value)
{
  (void)r;
  return note("%s='%s'", key, value);
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetIntParameter(TRITONSERVER_InferenceRequest *r,
                                                                 const char *key, int64_t value)
{
  (void)r;
  return note("%s=%lld", key, (long long)value);
}

TRITONSERVER_Error *TRITONSERVER_InferenceRequestSetBoolParameter(TRITONSERVER_InferenceRequest *r,
                                                                  const char *key, bool value)
{
  (void)r;
  return note("%s=%s", key, value ? "true" : "false");
}

TRITONSERVER_Error *
TRITONSERVER_InferenceRequestSetDoubleParameter(TRITONSERVER_InferenceRequest *r, const char *key,
                                                double value)
{
  (void)r;
  return note("%s=%g", key, value);
}

// ---- cases ----

#define NONE                                                                                       \
  REQUEST_PARAMETER_NONE,                                                                          \
  {                                                                                                \
    0                                                                                              \
  }
#define BOOLEAN(v)                                                                                 \
  REQUEST_PARAMETER_BOOL,                                                                          \
  {                                                                                                \
    .boolean = (v)                                                                                 \
  }
#define INTEGER(v)                                                                                 \
  REQUEST_PARAMETER_INT64,                                                                         \
  {                                                                                                \
    .integer = (v)                                                                                 \
  }
#define UNSIGNED(v)                                                                                \
  REQUEST_PARAMETER_UINT64,                                                                        \
  {                                                                                                \
    .number = (v)                                                                                  \
  }
#define REAL(v)                                                                                    \
  REQUEST_PARAMETER_DOUBLE,                                                                        \
  {                                                                                                \
    .real = (v)                                                                                    \
  }
#define TEXT(v)                                                                                    \
  REQUEST_PARAMETER_STRING,                                                                        \
  {                                                                                                \
    .string = (v)                                                                                  \
  }

static void assert_applied(request_parameter p, const char *expected, uint32_t expected_flags)
{
  uint32_t flags = 0;
  noted[0] = '\0';
  assert_taken(request_parameter_apply(NULL, &p, &flags));
  assert_string_equal(noted, expected);
  assert_int_equal(flags, expected_flags);
}

static void assert_not_applied(request_parameter p, const char *text)
{
  uint32_t flags = 0;
  noted[0] = '\0';
  assert_refused(request_parameter_apply(NULL, &p, &flags), ERROR_INVALID_ARG, text);
  assert_string_equal(noted, "");
  assert_int_equal(flags, 0);
}

#define APPLIED(expected, flags, ...)                                                              \
  assert_applied((request_parameter){__VA_ARGS__}, expected, flags)
#define REFUSED(text, ...) assert_not_applied((request_parameter){__VA_ARGS__}, text)

static void a_sequence_has_a_number_or_a_name(void **state)
{
  (void)state;
  const uint32_t start = TRITONSERVER_REQUEST_FLAG_SEQUENCE_START;
  const uint32_t end = TRITONSERVER_REQUEST_FLAG_SEQUENCE_END;
  APPLIED("sequence 7", 0, "sequence_id", INTEGER(7));
  APPLIED("sequence 'a'", 0, "sequence_id", TEXT("a"));
  APPLIED("", start, "sequence_start", BOOLEAN(true));
  APPLIED("", 0, "sequence_start", BOOLEAN(false));
  APPLIED("", end, "sequence_end", BOOLEAN(true));
  APPLIED("", 0, "sequence_end", BOOLEAN(false));
  const char *text = "invalid value type for 'sequence_id' parameter, expected int64_param or "
                     "string_param.";
  REFUSED(text, "sequence_id", BOOLEAN(true));
  REFUSED(text, "sequence_id", REAL(1));
  REFUSED(text, "sequence_id", UNSIGNED(1));
  REFUSED(text, "sequence_id", NONE);
  REFUSED("invalid value type for 'sequence_start' parameter, expected bool_param.",
          "sequence_start", INTEGER(1));
  REFUSED("invalid value type for 'sequence_end' parameter, expected bool_param.", "sequence_end",
          TEXT("true"));
}

static void priority_and_timeout_are_not_negative(void **state)
{
  (void)state;
  APPLIED("priority 3", 0, "priority", INTEGER(3));
  APPLIED("priority 18446744073709551615", 0, "priority", UNSIGNED(UINT64_MAX));
  APPLIED("timeout 9", 0, "timeout", INTEGER(9));
  REFUSED("invalid value for 'priority', expected value >= 0.", "priority", INTEGER(-1));
  APPLIED("timeout 18446744073709551615", 0, "timeout", INTEGER(-1)); // longer than any, as Triton
  REFUSED("'priority' parameter, expected int64_param or uint64_param.", "priority", REAL(1));
  REFUSED("'priority' parameter, expected int64_param or uint64_param.", "priority", TEXT("1"));
  REFUSED("'timeout' parameter, expected int64_param.", "timeout", UNSIGNED(1));
  REFUSED("'timeout' parameter, expected int64_param.", "timeout", BOOLEAN(true));
}

static void the_model_gets_the_rest(void **state)
{
  (void)state;
  APPLIED("a=true", 0, "a", BOOLEAN(true));
  APPLIED("a=-9223372036854775808", 0, "a", INTEGER(INT64_MIN));
  APPLIED("a=1.5", 0, "a", REAL(1.5));
  APPLIED("a=''", 0, "a", TEXT(""));
  APPLIED("Priority=1", 0, "Priority", INTEGER(1)); // names are exact
  REFUSED("invalid value type for 'a' parameter, expected int64_param, bool_param", "a",
          UNSIGNED(1));
  REFUSED("invalid value type for 'a' parameter, expected int64_param, bool_param", "a", NONE);
}

static void names_of_the_servers_own_are_reserved(void **state)
{
  (void)state;
  REFUSED("parameter keys starting with 'triton_' are reserved", "triton_", TEXT(""));
  REFUSED("parameter keys starting with 'triton_' are reserved", "triton_final_response",
          BOOLEAN(true));
  const char *const reserved[] = {"sequence_id", "sequence_start",     "sequence_end", "priority",
                                  "timeout",     "binary_data_output", "headers",      "triton_",
                                  "triton_x",    "Sequence_id",        "TRITON_x"};
  const char *const open[] = {"", "triton", "sequence_id ", "header", "x_triton_"};
  for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
    assert_true(request_parameter_is_reserved(slice_of(reserved[i])));
  for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++)
    assert_false(request_parameter_is_reserved(slice_of(open[i])));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sequence_has_a_number_or_a_name),
      cmocka_unit_test(priority_and_timeout_are_not_negative),
      cmocka_unit_test(the_model_gets_the_rest),
      cmocka_unit_test(names_of_the_servers_own_are_reserved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
