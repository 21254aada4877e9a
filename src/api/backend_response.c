// SPDX-License-Identifier: Apache-2.0
// TRITONBACKEND_Response*, TRITONBACKEND_ResponseFactory* and TRITONBACKEND_Output*: a backend's
// answers. Any thread, one response on one thread at a time.
#include "api/convert.h"
#include "nereid/nereid.h"
#include "request/output_check.h"
#include "request/request.h"
#include "request/response.h"
#include "triton/core/tritonbackend.h"

#include <assert.h>
#include <string.h>

static response *of(TRITONBACKEND_Response *r)
{
  return (response *)r;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryNew(TRITONBACKEND_ResponseFactory **factory,
                                                     TRITONBACKEND_Request *r)
{
  const request *from = (request *)r;
  assert(from->factory != NULL); // the backend has the request
  *factory = response_factory_ref(from->factory);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory *factory)
{
  response_factory_unref(factory);
  return NULL;
}

TRITONSERVER_Error *TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory *factory,
                                                           uint32_t send_flags)
{
  return error_to_abi(response_factory_send_flags(factory, send_flags));
}

API_GET(TRITONBACKEND_ResponseFactoryIsCancelled, TRITONBACKEND_ResponseFactory, bool,
        response_factory_is_cancelled(self))

TRITONSERVER_Error *TRITONBACKEND_ResponseNew(TRITONBACKEND_Response **r,
                                              TRITONBACKEND_Request *from)
{
  return error_to_abi(response_new(((request *)from)->factory, (response **)r));
}

TRITONSERVER_Error *TRITONBACKEND_ResponseNewFromFactory(TRITONBACKEND_Response **r,
                                                         TRITONBACKEND_ResponseFactory *factory)
{
  return error_to_abi(response_new(factory, (response **)r));
}

TRITONSERVER_Error *TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response *r)
{
  response_free(of(r));
  return NULL;
}

API_SET_PARAMETER(TRITONBACKEND_ResponseSetStringParameter, TRITONBACKEND_Response, const char *,
                  response_set_parameter(of(self), name, parameter_of_string(value)))
API_SET_PARAMETER(TRITONBACKEND_ResponseSetIntParameter, TRITONBACKEND_Response, int64_t,
                  response_set_parameter(of(self), name, parameter_of_int(value)))
API_SET_PARAMETER(TRITONBACKEND_ResponseSetBoolParameter, TRITONBACKEND_Response, bool,
                  response_set_parameter(of(self), name, parameter_of_bool(value)))
API_SET_PARAMETER(TRITONBACKEND_ResponseSetDoubleParameter, TRITONBACKEND_Response, double,
                  response_set_parameter(of(self), name, parameter_of_double(value)))

TRITONSERVER_Error *TRITONBACKEND_ResponseOutput(TRITONBACKEND_Response *r,
                                                 TRITONBACKEND_Output **output, const char *name,
                                                 TRITONSERVER_DataType type, const int64_t *shape,
                                                 uint32_t dims_count)
{
  return error_to_abi(response_add_output(of(r), name, type, shape, dims_count, output));
}

TRITONSERVER_Error *NEREID_ResponseUnconfiguredOutput(TRITONBACKEND_Response *r, const char *name)
{
  return error_to_abi(output_unconfigured(of(r)->factory->target, name));
}

TRITONSERVER_Error *TRITONBACKEND_ResponseSend(TRITONBACKEND_Response *r, uint32_t send_flags,
                                               TRITONSERVER_Error *failure)
{
  const error *e = error_of(failure); // stays the backend's
  return error_to_abi(response_send(
      of(r), send_flags, e == NULL ? NULL : error_new(error_get_code(e), "%s", error_message(e))));
}

TRITONSERVER_Error *TRITONBACKEND_OutputBuffer(TRITONBACKEND_Output *output, void **buffer,
                                               uint64_t buffer_byte_size,
                                               TRITONSERVER_MemoryType *memory_type,
                                               int64_t *memory_type_id)
{
  return error_to_abi(
      response_output_allocate(output, buffer_byte_size, memory_type, memory_type_id, buffer));
}

API_GET(TRITONBACKEND_OutputBufferAttributes, TRITONBACKEND_Output, TRITONSERVER_BufferAttributes *,
        &self->attributes)
