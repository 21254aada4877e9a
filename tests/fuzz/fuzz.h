// What the fuzz targets share. A target takes any bytes and must neither crash nor break what CHECK
// says of its results; it runs under libFuzzer, or over its committed corpus with replay.c.
#ifndef NEREID_TESTS_FUZZ_H
#define NEREID_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Unlike assert, stays in every build.
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

#endif
