// SPDX-License-Identifier: Apache-2.0
// What the tests of inference requests in protobuf's wire format share.
#ifndef NEREID_TESTS_PROTO_REQUEST_H
#define NEREID_TESTS_PROTO_REQUEST_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "frontend/grpc/codec/infer_request_proto.h"
#include "frontend/grpc/codec/proto_wire.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef Inference__ModelInferRequest request_message;
typedef Inference__ModelInferRequest__InferInputTensor input_message;
typedef Inference__ModelInferRequest__InferRequestedOutputTensor output_message;
typedef Inference__InferTensorContents contents_message;

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define TEXT(literal) ((char *)"" literal) // protobuf-c's fields are not const
#define MAX_TYPED     4096

// One message and what is read from it; the message is copied to memory of exactly its size.
typedef struct fixture {
  arena a;
  char *message;
  size_t size;
  infer_request_proto request;
} fixture;

static inline int set_up(void **state)
{
  fixture *f = calloc(1, sizeof(*f));
  arena_init(&f->a, NULL, 0);
  *state = f;
  return 0;
}

static inline int tear_down(void **state)
{
  fixture *f = *state;
  arena_fini(&f->a);
  free(f->message);
  free(f);
  return 0;
}

static inline error *read_bytes(fixture *f, const void *data, size_t size)
{
  free(f->message);
  f->message = malloc(size > 0 ? size : 1);
  f->size = size;
  if (size > 0)
    memcpy(f->message, data, size);
  const typed_room room = {.most = MAX_TYPED};
  return infer_request_proto_read((slice){f->message, size}, &room, &f->a, &f->request);
}

static inline error *read_buffer(fixture *f, const buffer *b)
{
  return read_bytes(f, b->data, b->size);
}

static inline error *read_message(fixture *f, const request_message *m)
{
  size_t size = inference__model_infer_request__get_packed_size(m);
  uint8_t *packed = malloc(size + 1);
  inference__model_infer_request__pack(m, packed);
  error *e = read_bytes(f, packed, size);
  free(packed);
  return e;
}

static inline void assert_ok(error *e)
{
  if (e != NULL)
    fail_msg("refused: %s", error_message(e));
}

static inline void assert_refused(error *e, const char *text)
{
  assert_non_null(e);
  assert_int_equal(error_get_code(e), ERROR_INVALID_ARG);
  assert_string_equal(error_message(e), text);
  error_free(e);
}

#define BROKEN "Unable to parse request: it is not a message in protobuf's wire format"

static inline void append_parameter(buffer *b, uint32_t number, const char *key, uint32_t choice,
                                    uint64_t value)
{
  size_t entry = proto_begin(b, number);
  proto_append_text(b, 1, key);
  size_t choice_begin = proto_begin(b, 2);
  proto_append_integer(b, choice, value);
  proto_end(b, choice_begin);
  proto_end(b, entry);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
