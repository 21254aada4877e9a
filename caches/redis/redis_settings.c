// SPDX-License-Identifier: Apache-2.0
// Every value is a text in a JSON object; unknown names are ignored, as in Triton.
#include "caches/redis/redis_settings.h"

#include "backend_error.h"
#include "base/text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS            1000000u
#define LONGEST_MS           60000 // the longest wait of a request, whatever is set
#define CONNECT_MS           1000
#define ANSWER_MS            20
#define LINKS                8
#define MOST_LINKS           MOST_REDIS_LINKS
#define USERNAME_ENVIRONMENT "TRITONCACHE_REDIS_USERNAME"
#define PASSWORD_ENVIRONMENT "TRITONCACHE_REDIS_PASSWORD"

typedef struct text_setting {
  const char *name;
  char **value;
} text_setting;

static bool read_texts(const json_t *root, const text_setting *settings, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    const char *text = json_string_value(json_object_get(root, settings[i].name));
    if (text != NULL && !text_replace(settings[i].value, text))
      return false;
  }
  return true;
}

static bool read_environment(redis_settings *s)
{
  const char *user = getenv(USERNAME_ENVIRONMENT), *password = getenv(PASSWORD_ENVIRONMENT);
  return (user == NULL || text_replace(&s->user, user)) &&
         (password == NULL || text_replace(&s->password, password));
}

// A number from `least` to `most`. The default `otherwise` is for an absent value, and for 0 where
// that is Triton's "for ever".
static TRITONSERVER_Error *read_number(const json_t *root, const char *name, int64_t least,
                                       int64_t most, int64_t otherwise, int64_t *number)
{
  const char *text = json_string_value(json_object_get(root, name));
  *number = otherwise;
  if (text == NULL)
    return NULL;
  if (!text_to_int64(slice_of(text), number) || *number < least || *number > most)
    return backend_error(TRITONSERVER_ERROR_INVALID_ARG,
                         "Failed to initialize RedisCache: %s is '%s', expected a number from "
                         "%" PRId64 " to %" PRId64,
                         name, text, least, most);
  if (*number == 0)
    *number = otherwise;
  return NULL;
}

static bool is_true(const json_t *root, const char *name)
{
  const char *text = json_string_value(json_object_get(root, name));
  return text != NULL && strcmp(text, "true") == 0;
}

static TRITONSERVER_Error *read_numbers(const json_t *root, redis_settings *s)
{
  int64_t connect_ms, answer_ms, links, ttl, db;
  BACKEND_RETURN_IF_ERROR(
      read_number(root, "connect_timeout", 0, LONGEST_MS, CONNECT_MS, &connect_ms));
  BACKEND_RETURN_IF_ERROR(
      read_number(root, "socket_timeout", 0, LONGEST_MS, ANSWER_MS, &answer_ms));
  BACKEND_RETURN_IF_ERROR(read_number(root, "pool_size", 0, MOST_LINKS, LINKS, &links));
  BACKEND_RETURN_IF_ERROR(read_number(root, "ttl", 0, INT32_MAX, 0, &ttl));
  BACKEND_RETURN_IF_ERROR(read_number(root, "db", 0, INT32_MAX, 0, &db));
  s->connect_timeout_ns = (uint64_t)connect_ms * NS_PER_MS;
  s->answer_timeout_ns = (uint64_t)answer_ms * NS_PER_MS;
  s->link_count = (unsigned)links;
  if ((ttl != 0 && asprintf(&s->ttl, "%" PRId64, ttl) < 0) ||
      (db != 0 && asprintf(&s->db, "%" PRId64, db) < 0))
    return backend_error_no_memory("the cache's settings");
  return NULL;
}

static TRITONSERVER_Error *read_all(const json_t *root, redis_settings *s)
{
  const text_setting texts[] = {
      {"host", &s->host},     {"port", &s->port},
      {"user", &s->user},     {"password", &s->password},
      {"cert", &s->cert},     {"key", &s->key},
      {"cacert", &s->cacert}, {"cacert_dir", &s->cacert_dir},
      {"sni", &s->sni},
  };
  int64_t port = 0;
  const char *rest;
  if (!read_environment(s) || !read_texts(root, texts, sizeof(texts) / sizeof(texts[0])))
    return backend_error_no_memory("the cache's settings");
  if (s->host == NULL || s->port == NULL)
    return TRITONSERVER_ErrorNew(
        TRITONSERVER_ERROR_INVALID_ARG,
        "Failed to initialize RedisCache, didn't specify address. Must at a minimum specify "
        "'host' and 'port' in the configuration - e.g. tritonserver --cache-config "
        "redis,host=redis --cache-config redis,port=6379 --model-repository=/models ...");
  if (!text_begins_int64(s->port, &port, &rest)) // as in Triton: 0, where nothing listens
    port = 0;
  free(s->port);
  if (asprintf(&s->port, "%" PRId64, port) < 0) {
    s->port = NULL;
    return backend_error_no_memory("the cache's settings");
  }
  s->optional = is_true(root, "optional");
  s->tls = is_true(root, "tls_enabled");
  s->verify_host = is_true(root, "verify_host");
  return read_numbers(root, s);
}

TRITONSERVER_Error *redis_settings_read(const char *config, redis_settings *s)
{
  json_error_t error;
  *s = (redis_settings){0};
  json_t *root = json_loads(config, 0, &error);
  TRITONSERVER_Error *e = read_all(root, s);
  json_decref(root);
  return e;
}

void redis_settings_fini(redis_settings *s)
{
  char *const texts[] = {s->host, s->port, s->user,   s->password,   s->db, s->ttl,
                         s->cert, s->key,  s->cacert, s->cacert_dir, s->sni};
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
    free(texts[i]);
}
