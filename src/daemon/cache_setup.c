// SPDX-License-Identifier: Apache-2.0
// As Triton does, hands each cache its settings as one JSON object of texts.
#include "daemon/cache_setup.h"

#include "base/buffer.h"
#include "base/string_map.h"
#include "frontend/common/observe/abi_error.h"
#include "frontend/common/observe/frontend_log.h"

#include <inttypes.h>

typedef struct cache_setting {
  slice cache, name, value;
} cache_setting;

// "<cache>,<setting>=<value>"
static error *read_setting(const char *text, cache_setting *s)
{
  slice rest = slice_of(text);
  s->cache = slice_take_until(&rest, ',');
  s->name = slice_take_until(&rest, '=');
  s->value = rest;
  if (s->cache.size == 0 || s->name.size == 0 || s->value.size == 0)
    return option_bad_value("cache-config", text, "<cache>,<setting>=<value>");
  return NULL;
}

// Appends the settings of the cache that flag number `first` names. As in Triton, the first setting
// of a name counts.
static error *append_settings(const string_list *texts, size_t first, slice cache, buffer *json)
{
  error *e = NULL;
  cache_setting s;
  string_map names = {0};
  buffer_append_char(json, '{');
  for (size_t i = first; e == NULL && i < texts->count; i++) {
    if ((e = read_setting(texts->items[i], &s)) != NULL || !slice_equal(s.cache, cache))
      continue;
    if (string_map_get(&names, s.name) != NULL) {
      frontend_log_warning("--cache-config: '%.*s,%.*s' is given again: the first one counts",
                           (int)cache.size, cache.data, (int)s.name.size, s.name.data);
      continue;
    }
    buffer_append_text(json, names.live_count == 0 ? "" : ",");
    buffer_append_json_string(json, s.name);
    buffer_append_char(json, ':');
    buffer_append_json_string(json, s.value);
    if (!string_map_put(&names, s.name, (void *)texts))
      e = error_no_memory();
  }
  buffer_append_char(json, '}');
  string_map_fini(&names);
  return e;
}

static error *set_cache(TRITONSERVER_ServerOptions *options, slice cache, buffer *json)
{
  AUTO_BUFFER buffer name = BUFFER_EMPTY;
  buffer_append_slice(&name, cache);
  buffer_append_char(&name, '\0');
  buffer_append_char(json, '\0');
  if (name.failed || json->failed)
    return error_no_memory();
  return error_from_abi(TRITONSERVER_ServerOptionsSetCacheConfig(options, name.data, json->data));
}

static bool is_known(const string_list *texts, size_t before, slice cache)
{
  cache_setting s;
  for (size_t i = 0; i < before; i++) {
    error *e = read_setting(texts->items[i], &s);
    error_free(e);
    if (e == NULL && slice_equal(s.cache, cache))
      return true;
  }
  return false;
}

error *cache_flags_check(const daemon_options *o)
{
  cache_setting s;
  for (size_t i = 0; i < o->cache_configs.count; i++)
    RETURN_IF_ERROR(read_setting(o->cache_configs.items[i], &s));
  if (o->cache_configs.count > 0 && o->response_cache_bytes > 0)
    return error_new(ERROR_INVALID_ARG,
                     "Incompatible flags --response-cache-byte-size and --cache-config both "
                     "provided. Please provide one or the other.");
  return NULL;
}

error *cache_setup(TRITONSERVER_ServerOptions *options, const daemon_options *o)
{
  const string_list *texts = &o->cache_configs;
  for (size_t i = 0; i < texts->count; i++) {
    cache_setting s;
    AUTO_BUFFER buffer json = BUFFER_EMPTY;
    RETURN_IF_ERROR(read_setting(texts->items[i], &s));
    if (is_known(texts, i, s.cache))
      continue;
    RETURN_IF_ERROR(append_settings(texts, i, s.cache, &json));
    RETURN_IF_ERROR(set_cache(options, s.cache, &json));
  }
  if (o->response_cache_bytes == 0)
    return NULL;
  frontend_log_warning(
      "--response-cache-byte-size is deprecated: give --cache-config=local,size=%" PRId64
      " instead",
      o->response_cache_bytes);
  return error_from_abi(TRITONSERVER_ServerOptionsSetResponseCacheByteSize(
      options, (uint64_t)o->response_cache_bytes));
}
