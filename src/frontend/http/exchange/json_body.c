// SPDX-License-Identifier: Apache-2.0
// JSON bodies of control requests. Loop and job threads.
#include "frontend/http/exchange/exchange.h"

#include "base/json_bounds.h"

#include <assert.h>
#include <string.h>

#define MAX_VALUES 4096

static slice without_mark(slice text)
{
  const slice mark = SLICE("\xef\xbb\xbf");
  bool has_mark = text.size >= mark.size && memcmp(text.data, mark.data, mark.size) == 0;
  return has_mark ? (slice){text.data + mark.size, text.size - mark.size} : text;
}

error *exchange_read_json(exchange *x, json_t **object)
{
  assert(x->json == NULL);
  *object = NULL;
  if (x->body.size == 0)
    return NULL;
  json_error_t where;
  const slice text = without_mark((slice){x->body.data, x->body.size});
  RETURN_IF_ERROR(json_bounds_check(text, MAX_VALUES));
  x->json = json_loadb(text.data, text.size, JSON_DECODE_ANY, &where);
  if (x->json == NULL)
    return error_new(ERROR_INVALID_ARG,
                     "failed to parse the request JSON buffer: %s at line %d column %d", where.text,
                     where.line, where.column);
  if (json_is_object(x->json))
    *object = x->json;
  return NULL;
}

bool exchange_parse_json(exchange *x, json_t **object)
{
  return !exchange_fail_if_error(x, exchange_read_json(x, object));
}
