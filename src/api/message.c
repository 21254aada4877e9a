// SPDX-License-Identifier: Apache-2.0
// TRITONSERVER_Message*: JSON texts. One thread at a time uses a message, which owns its text.
#include "request/message.h"

#include "api/convert.h"

TRITONSERVER_Error *TRITONSERVER_MessageNewFromSerializedJson(TRITONSERVER_Message **m,
                                                              const char *base, size_t byte_size)
{
  return error_to_abi(message_new((slice){base, byte_size}, m));
}

TRITONSERVER_Error *TRITONSERVER_MessageDelete(TRITONSERVER_Message *m)
{
  message_free(m);
  return NULL;
}

TRITONSERVER_Error *TRITONSERVER_MessageSerializeToJson(TRITONSERVER_Message *m, const char **base,
                                                        size_t *byte_size)
{
  *base = m->text;
  *byte_size = m->size;
  return NULL;
}
