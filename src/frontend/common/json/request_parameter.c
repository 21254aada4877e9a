// One row for each parameter with a meaning.
#include "frontend/common/json/request_parameter.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define RESERVED_PREFIX "triton_"
#define TYPE(name)      (1u << REQUEST_PARAMETER_##name)

typedef TRITONSERVER_Error *parameter_setter(TRITONSERVER_InferenceRequest *r,
                                             const request_parameter *p, uint32_t *flags);

__attribute__((format(printf, 1, 2))) static TRITONSERVER_Error *refuse(const char *format, ...)
{
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return TRITONSERVER_ErrorNew(TRITONSERVER_ERROR_INVALID_ARG, text);
}

static TRITONSERVER_Error *set_sequence(TRITONSERVER_InferenceRequest *r,
                                        const request_parameter *p, uint32_t *flags)
{
  (void)flags;
  return p->type == REQUEST_PARAMETER_STRING
             ? TRITONSERVER_InferenceRequestSetCorrelationIdString(r, p->value.string)
             : TRITONSERVER_InferenceRequestSetCorrelationId(r, p->value.number);
}

static TRITONSERVER_Error *set_start(TRITONSERVER_InferenceRequest *r, const request_parameter *p,
                                     uint32_t *flags)
{
  (void)r;
  *flags |= p->value.boolean ? TRITONSERVER_REQUEST_FLAG_SEQUENCE_START : 0;
  return NULL;
}

static TRITONSERVER_Error *set_end(TRITONSERVER_InferenceRequest *r, const request_parameter *p,
                                   uint32_t *flags)
{
  (void)r;
  *flags |= p->value.boolean ? TRITONSERVER_REQUEST_FLAG_SEQUENCE_END : 0;
  return NULL;
}

static TRITONSERVER_Error *set_priority(TRITONSERVER_InferenceRequest *r,
                                        const request_parameter *p, uint32_t *flags)
{
  (void)flags;
  if (p->type == REQUEST_PARAMETER_INT64 && p->value.integer < 0)
    return refuse("invalid value for '%s', expected value >= 0.", p->name);
  return TRITONSERVER_InferenceRequestSetPriorityUInt64(r, p->value.number);
}

static TRITONSERVER_Error *set_timeout(TRITONSERVER_InferenceRequest *r, const request_parameter *p,
                                       uint32_t *flags)
{
  (void)flags; // below 0 it is longer than any, as in Triton
  return TRITONSERVER_InferenceRequestSetTimeoutMicroseconds(r, p->value.number);
}

// Of the front ends themselves: nothing that a request is given.
static const char *const front_end_names[] = {"binary_data_output", "headers"};

static const struct {
  const char *name;
  unsigned types; // bits
  const char *expected;
  parameter_setter *set;
} meanings[] = {
    {"sequence_id", TYPE(INT64) | TYPE(STRING), "int64_param or string_param.", set_sequence},
    {"sequence_start", TYPE(BOOL), "bool_param.", set_start},
    {"sequence_end", TYPE(BOOL), "bool_param.", set_end},
    {"priority", TYPE(INT64) | TYPE(UINT64), "int64_param or uint64_param.", set_priority},
    {"timeout", TYPE(INT64), "int64_param.", set_timeout},
};

#define MEANING_COUNT (sizeof(meanings) / sizeof(meanings[0]))

static bool has_reserved_prefix(slice name)
{
  const slice prefix = {RESERVED_PREFIX, sizeof(RESERVED_PREFIX) - 1};
  return name.size >= prefix.size && memcmp(name.data, prefix.data, prefix.size) == 0;
}

bool request_parameter_is_reserved(slice name)
{
  for (size_t i = 0; i < MEANING_COUNT; i++)
    if (slice_equal_text(name, meanings[i].name))
      return true;
  for (size_t i = 0; i < sizeof(front_end_names) / sizeof(front_end_names[0]); i++)
    if (slice_equal_text(name, front_end_names[i]))
      return true;
  return has_reserved_prefix(name);
}

TRITONSERVER_Error *request_parameter_give(TRITONSERVER_InferenceRequest *r,
                                           const request_parameter *p)
{
  switch (p->type) {
  case REQUEST_PARAMETER_BOOL:
    return TRITONSERVER_InferenceRequestSetBoolParameter(r, p->name, p->value.boolean);
  case REQUEST_PARAMETER_INT64:
    return TRITONSERVER_InferenceRequestSetIntParameter(r, p->name, p->value.integer);
  case REQUEST_PARAMETER_DOUBLE:
    return TRITONSERVER_InferenceRequestSetDoubleParameter(r, p->name, p->value.real);
  case REQUEST_PARAMETER_STRING:
    return TRITONSERVER_InferenceRequestSetStringParameter(r, p->name, p->value.string);
  case REQUEST_PARAMETER_NONE:
  case REQUEST_PARAMETER_UINT64:
    break;
  }
  return refuse("invalid value type for '%.256s' parameter, expected int64_param, bool_param, or "
                "string_param. A double_param is taken too.",
                p->name);
}

TRITONSERVER_Error *request_parameter_apply(TRITONSERVER_InferenceRequest *r,
                                            const request_parameter *p, uint32_t *flags)
{
  for (size_t i = 0; i < MEANING_COUNT; i++) {
    if (strcmp(p->name, meanings[i].name) != 0)
      continue;
    if ((meanings[i].types & (1u << p->type)) == 0)
      return refuse("invalid value type for '%s' parameter, expected %s", p->name,
                    meanings[i].expected);
    return meanings[i].set(r, p, flags);
  }
  if (has_reserved_prefix(slice_of(p->name)))
    return refuse("parameter keys starting with '%s' are reserved for Triton usage and should not "
                  "be specified.",
                  RESERVED_PREFIX);
  return request_parameter_give(r, p);
}
