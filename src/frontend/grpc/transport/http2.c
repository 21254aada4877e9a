// Finds the functions of libnghttp2.
#include "frontend/grpc/transport/http2.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#define LIBRARY "libnghttp2.so.14"

http2_library http2;

static const struct {
  const char *name;
  size_t offset;
} functions[] = {
#define HTTP2_ROW(name) {"nghttp2_" #name, offsetof(http2_library, name)},
    HTTP2_FUNCTIONS(HTTP2_ROW)
#undef HTTP2_ROW
};

error *http2_load(void)
{
  static void *library;
  if (library != NULL)
    return NULL;
  void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (opened == NULL)
    return error_new(ERROR_UNAVAILABLE, "gRPC needs %s (or --allow-grpc=false): %s", LIBRARY,
                     dlerror());
  for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
    void *function = dlsym(opened, functions[i].name);
    if (function == NULL) {
      dlclose(opened);
      return error_new(ERROR_UNAVAILABLE, "%s is too old for gRPC: it has no %s", LIBRARY,
                       functions[i].name);
    }
    memcpy((char *)&http2 + functions[i].offset, &function, sizeof(function));
  }
  library = opened;
  return NULL;
}
