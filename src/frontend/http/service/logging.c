// SPDX-License-Identifier: Apache-2.0
// /v2/logging: the log's settings. Answered at once, on the loop thread.
#include "frontend/common/observe/log_settings.h"
#include "frontend/http/exchange/exchange.h"
#include "frontend/http/service/routes.h"

// Converts a member of the request.
static log_setting setting_of(const char *name, const json_t *value)
{
  log_setting setting = {.name = name, .kind = LOG_SETTING_OTHER};
  if (json_is_boolean(value)) {
    setting.kind = LOG_SETTING_BOOL;
    setting.value.boolean = json_is_true(value);
  } else if (json_is_integer(value)) {
    setting.kind = LOG_SETTING_INTEGER;
    setting.value.integer = json_integer_value(value);
  } else if (json_is_string(value)) {
    setting.kind = LOG_SETTING_TEXT;
    setting.value.text = json_string_value(value);
  }
  return setting;
}

static bool change(exchange *x)
{
  json_t *object;
  size_t count = 0;
  const char *name;
  json_t *value;
  if (!exchange_parse_json(x, &object))
    return false;
  log_setting *settings =
      arena_allocate_array(&x->arena, json_object_size(object) + 1, sizeof(*settings));
  if (settings == NULL)
    return exchange_fail(x, MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
  json_object_foreach(object, name, value)
  {
    if (!json_is_null(value))
      settings[count++] = setting_of(name, value);
  }
  return !exchange_fail_if_error(x, log_settings_change(settings, count));
}

void handle_logging(exchange *x)
{
  if ((x->method & METHOD_POST) != 0 && !change(x))
    return;
  log_settings_print(&x->text, false);
  exchange_reply_json(x);
}
