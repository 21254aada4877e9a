// SPDX-License-Identifier: Apache-2.0
// A JSON text that crosses the ABI: metadata, configurations, statistics, indexes. The core itself
// uses no JSON; texts are printed into a buffer here, at the seam.
#ifndef NEREID_REQUEST_MESSAGE_H
#define NEREID_REQUEST_MESSAGE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/text.h"
#include "triton/core/tritonserver.h"

#include <stdlib.h>

typedef struct TRITONSERVER_Message message;

struct TRITONSERVER_Message {
  char *text; // owned, NUL-terminated
  size_t size;
};

// Makes a message of a printed text, which is moved, not copied. `text_owned` is empty afterwards.
static inline error *message_new_from_buffer(buffer *text_owned, message **result)
{
  size_t size = text_owned->size;
  char *text = buffer_take_text(text_owned);
  message *m = text != NULL ? malloc(sizeof(*m)) : NULL;
  if (m == NULL) {
    free(text);
    return error_no_memory();
  }
  *m = (message){text, size};
  *result = m;
  return NULL;
}

static inline error *message_new(slice text, message **result)
{
  message *m = malloc(sizeof(*m));
  char *copy = m != NULL ? text_copy(text) : NULL;
  if (copy == NULL) {
    free(m);
    return error_no_memory();
  }
  *m = (message){copy, text.size};
  *result = m;
  return NULL;
}

static inline slice message_text(const message *m)
{
  return (slice){m->text, m->size};
}

static inline void message_free(message *m)
{
  if (m == NULL)
    return;
  free(m->text);
  free(m);
}

#endif
