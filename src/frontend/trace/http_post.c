// libcurl, opened at run time: see http_post.h. Linked, it would bring 19 more libraries into each
// server, traced or not, and half as much memory again while idle (docs/tracing.md).
#include "frontend/trace/http_post.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#define LIBRARY "libcurl.so.4"

// The functions that are used, by their names without "curl_".
#define FUNCTIONS(X)                                                                               \
  X(global_init)                                                                                   \
  X(easy_init)                                                                                     \
  X(easy_setopt)                                                                                   \
  X(easy_perform)                                                                                  \
  X(easy_getinfo)                                                                                  \
  X(easy_strerror)                                                                                 \
  X(easy_cleanup)                                                                                  \
  X(slist_append)                                                                                  \
  X(slist_free_all)

static struct {
#define MEMBER(name) __typeof__(&curl_##name) name;
  FUNCTIONS(MEMBER)
#undef MEMBER
  char failure[256]; // why the library cannot be used; "": it can
} curl;

struct http_post {
  CURL *handle;
  struct curl_slist *headers;
  char *url; // owned
};

static void open_library(void)
{
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  const char *reason = library == NULL ? dlerror() : NULL;
#define LOAD(name)                                                                                 \
  if (reason == NULL) {                                                                            \
    *(void **)&curl.name = dlsym(library, "curl_" #name);                                          \
    reason = curl.name == NULL ? "it has no curl_" #name : NULL;                                   \
  }
  FUNCTIONS(LOAD)
#undef LOAD
  if (reason == NULL && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    reason = "it cannot be initialized";
  if (reason != NULL)
    snprintf(curl.failure, sizeof(curl.failure), "%s", reason);
}

static size_t drop(char *data, size_t size, size_t count, void *context)
{
  (void)data;
  (void)context;
  return size * count;
}

static bool set_text(http_post *p, CURLoption option, const char *text)
{
  return curl.easy_setopt(p->handle, option, text) == CURLE_OK;
}

// Authorities that are named are trusted instead of the system's, which libcurl has in two places.
static bool set_tls(http_post *p, const http_post_tls *tls)
{
  if (tls->authorities != NULL &&
      !(set_text(p, CURLOPT_CAINFO, tls->authorities) && set_text(p, CURLOPT_CAPATH, NULL)))
    return false;
  return set_text(p, CURLOPT_SSLCERT, tls->certificate) && set_text(p, CURLOPT_SSLKEY, tls->key);
}

static bool set_options(http_post *p, const char *url, const char *const *headers)
{
  p->url = strdup(url);
  p->handle = curl.easy_init();
  for (; *headers != NULL; headers++) {
    struct curl_slist *longer = curl.slist_append(p->headers, *headers);
    if (longer == NULL)
      return false;
    p->headers = longer;
  }
  return p->url != NULL && p->handle != NULL &&
         curl.easy_setopt(p->handle, CURLOPT_URL, p->url) == CURLE_OK &&
         curl.easy_setopt(p->handle, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK &&
         curl.easy_setopt(p->handle, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
         curl.easy_setopt(p->handle, CURLOPT_TIMEOUT_MS, (long)HTTP_POST_TIMEOUT_MS) == CURLE_OK &&
         curl.easy_setopt(p->handle, CURLOPT_HTTPHEADER, p->headers) == CURLE_OK &&
         curl.easy_setopt(p->handle, CURLOPT_WRITEFUNCTION, drop) == CURLE_OK;
}

error *http_post_new(const char *url, const char *const *headers, const http_post_tls *tls,
                     http_post **result)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_library);
  if (curl.failure[0] != '\0')
    return error_new(ERROR_UNAVAILABLE, "%s is needed to send traces: %s", LIBRARY, curl.failure);
  http_post *p = calloc(1, sizeof(*p));
  if (p == NULL)
    return error_no_memory();
  if (!set_options(p, url, headers) || !set_tls(p, tls)) {
    http_post_free(p);
    return error_new(ERROR_UNAVAILABLE, "cannot send traces to '%s' with %s", url, LIBRARY);
  }
  *result = p;
  return NULL;
}

void http_post_free(http_post *p)
{
  if (p == NULL)
    return;
  if (p->handle != NULL)
    curl.easy_cleanup(p->handle);
  curl.slist_free_all(p->headers);
  free(p->url);
  free(p);
}

error *http_post_send(http_post *p, slice body)
{
  long status = 0;
  curl.easy_setopt(p->handle, CURLOPT_POSTFIELDS, body.data);
  curl.easy_setopt(p->handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.size);
  CURLcode code = curl.easy_perform(p->handle);
  if (code != CURLE_OK)
    return error_new(ERROR_UNAVAILABLE, "%s", curl.easy_strerror(code));
  curl.easy_getinfo(p->handle, CURLINFO_RESPONSE_CODE, &status);
  if (status < 200 || status > 299)
    return error_new(ERROR_UNAVAILABLE, "its answer has status %ld", status);
  return NULL;
}
