// Bodies of control requests.
#include "frontend/http/json_body.h"

#include "base/json_bounds.h"
#include "frontend/http/exchange.h"

#define MAX_VALUES 4096

bool json_body_parse(exchange *x, json_t **object)
{
  *object = NULL;
  if (x->body.size == 0)
    return true;
  json_error_t where;
  slice text = {x->body.data, x->body.size};
  if (exchange_fail_if_error(x, json_bounds_check(text, MAX_VALUES)))
    return false;
  json_t *json = json_loadb(x->body.data, x->body.size, JSON_DECODE_ANY, &where);
  if (json == NULL) {
    exchange_fail(x, MHD_HTTP_BAD_REQUEST,
                  "failed to parse the request JSON buffer: %s at line %d column %d", where.text,
                  where.line, where.column);
    return false;
  }
  if (!json_is_object(json)) {
    json_decref(json);
    exchange_fail(x, MHD_HTTP_BAD_REQUEST, "the request must be a JSON object");
    return false;
  }
  *object = json;
  return true;
}
