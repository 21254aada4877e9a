// SPDX-License-Identifier: Apache-2.0
// A JSON inference request as it is read by a test, and requests to be read.
#ifndef NEREID_TESTS_JSON_REQUEST_H
#define NEREID_TESTS_JSON_REQUEST_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "frontend/common/json/infer_request_json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ZEROES_BEHIND 16 // what the reader asks for
#define MAX_DATA      4096

typedef struct reading {
  char *text; // of exactly the size that the reader may touch, so that ASan sees one byte more
  arena arena;
  infer_request_json request;
  error *error;
} reading;

// Text, the bytes behind it and zeroes, as in a request's body.
static reading read_bytes(const void *text, size_t size, const char *behind)
{
  reading r = {.text = calloc(1, size + strlen(behind) + ZEROES_BEHIND)};
  assert_non_null(r.text);
  memcpy(r.text, text, size);
  memcpy(r.text + size, behind, strlen(behind));
  arena_init(&r.arena, NULL, 0);
  r.error = infer_request_json_read((slice){r.text, size}, MAX_DATA, NULL, &r.arena, &r.request);
  return r;
}

static reading read_text(const char *text)
{
  return read_bytes(text, strlen(text), "");
}

static reading read_good(const char *text)
{
  reading r = read_text(text);
  if (r.error != NULL)
    fail_msg("%s\nwas refused: %s", text, error_message(r.error));
  return r;
}

static void finish(reading *r)
{
  error_free(r->error);
  arena_fini(&r->arena);
  free(r->text);
}

// Refused as INVALID_ARG with a message that holds each of the words.
static void assert_refused(const char *text, const char *const *words)
{
  reading r = read_text(text);
  if (r.error == NULL)
    fail_msg("%s\nwas taken", text);
  assert_int_equal(error_get_code(r.error), ERROR_INVALID_ARG);
  for (; *words != NULL; words++)
    if (strstr(error_message(r.error), *words) == NULL)
      fail_msg("%s\nwas refused with: %s\nwithout: %s", text, error_message(r.error), *words);
  finish(&r);
}

#define ASSERT_REFUSED(text, ...) assert_refused(text, (const char *const[]){__VA_ARGS__, NULL})

#define TENSOR(datatype, shape, data)                                                              \
  "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"" datatype "\",\"shape\":" shape ",\"data\":" data  \
  "}]}"

#define INPUT(members) "{\"inputs\":[{" members "}]}"
#define X              "\"name\":\"x\",\"datatype\":\"UINT8\",\"shape\":[1]"

#endif
