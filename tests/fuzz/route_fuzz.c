// A path, then header fields, one a line: what a client can say before anything is decided.
#include "frontend/http/headers.h"
#include "frontend/http/routes.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static slice take_line(slice *rest)
{
  const char *end = rest->size > 0 ? memchr(rest->data, '\n', rest->size) : NULL;
  size_t size = end != NULL ? (size_t)(end - rest->data) : rest->size;
  slice line = {rest->data, size};
  size_t taken = end != NULL ? size + 1 : size;
  *rest = (slice){rest->data + taken, rest->size - taken};
  return line;
}

static void match(slice path)
{
  route_match found = routes_find(METHOD_POST, path);
  for (size_t i = 0; i < PARAMETER_COUNT; i++) {
    char *decoded = malloc(found.parameters[i].size + 1);
    if (decoded != NULL && route_decode(found.parameters[i], decoded) &&
        strlen(decoded) > found.parameters[i].size)
      abort();
    free(decoded);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  slice rest = {(const char *)data, size};
  slice path = take_line(&rest);
  if (path.size > 0 && path.data[0] == '/')
    match(path);
  request_headers headers = {0};
  while (rest.size > 0) {
    slice line = take_line(&rest);
    const char *colon = line.size > 0 ? memchr(line.data, ':', line.size) : NULL;
    if (colon != NULL)
      headers_add(&headers, (slice){line.data, (size_t)(colon - line.data)},
                  (slice){colon + 1, line.size - (size_t)(colon + 1 - line.data)});
  }
  headers_finish(&headers);
  return 0;
}
