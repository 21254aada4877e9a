// SPDX-License-Identifier: Apache-2.0
// What the tests of src/gpu share. They run on the played driver (tests/fakes/gpu), which ctest
// puts into LD_LIBRARY_PATH, and as they are on a real one.
#ifndef NEREID_TESTS_GPU_TESTING_H
#define NEREID_TESTS_GPU_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/context.h"
#include "gpu/copy.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define HOST      ((gpu_place){GPU_MEMORY_HOST, 0})
#define PINNED(n) ((gpu_place){GPU_MEMORY_PINNED, n})
#define ON(n)     ((gpu_place){GPU_MEMORY_DEVICE, n})

#define assert_good(expression) assert_good_(expression, #expression, __FILE__, __LINE__)
static inline void assert_good_(error *e, const char *what, const char *file, int line)
{
  if (e == NULL)
    return;
  print_error("%s: %s\n", what, error_message(e));
  error_free(e);
  _fail(file, line);
}

// `text` is part of the message; the error is freed.
#define assert_error(e, code, text) assert_error_(e, code, text, __FILE__, __LINE__)
static inline void assert_error_(error *e, error_code code, const char *text, const char *file,
                                 int line)
{
  bool right = e != NULL && error_get_code(e) == code && strstr(error_message(e), text) != NULL;
  if (!right)
    print_error("%d \"%s\", not %d \"%s\"\n", e == NULL ? -1 : (int)error_get_code(e),
                e == NULL ? "" : error_message(e), (int)code, text);
  error_free(e);
  if (!right)
    _fail(file, line);
}

static inline const gpu_devices *find_devices(void)
{
  const gpu_devices *devices;
  const char *why;
  assert_good(gpu_devices_find(&devices, &why));
  if (devices->count == 0)
    print_error("no GPU (%s); ctest plays one: LD_LIBRARY_PATH=tests/fakes/gpu of the build\n",
                why);
  assert_true(devices->count > 0);
  return devices;
}

// Bytes that differ along the way, and with `seed`.
static inline void fill_bytes(unsigned char *bytes, size_t size, unsigned seed)
{
  uint64_t random = seed * UINT64_C(2654435761) + 1;
  for (size_t i = 0; i < size; i += sizeof(random)) {
    random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    memcpy(bytes + i, &random, size - i < sizeof(random) ? size - i : sizeof(random));
  }
}

#endif
