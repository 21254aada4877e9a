// SPDX-License-Identifier: Apache-2.0
// Any bytes as the request of a control method. What is accepted must pack to a message that is
// read to the same bytes again; texts are whole; little becomes no more than it may.
#include "base/arena.h"
#include "base/error.h"
#include "frontend/grpc/codec/proto_unpack.h"
#include "frontend/grpc/proto/grpc_service.pb-c.h"
#include "frontend/grpc/proto/health.pb-c.h"
#include "fuzz.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &inference__model_ready_request__descriptor,
    &inference__repository_index_request__descriptor,
    &inference__repository_model_load_request__descriptor,
    &inference__system_shared_memory_register_request__descriptor,
    &inference__cuda_shared_memory_register_request__descriptor,
    &inference__trace_setting_request__descriptor,
    &inference__log_settings_request__descriptor,
    &grpc__health__v1__health_check_request__descriptor,
};

static slice packed(const ProtobufCMessage *message, arena *a)
{
  size_t size = protobuf_c_message_get_packed_size(message);
  char *to = arena_allocate(a, size);
  CHECK(to != NULL && protobuf_c_message_pack(message, (uint8_t *)to) == size);
  return (slice){to, size};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  fuzz_input input = {data, size};
  const ProtobufCMessageDescriptor *type =
      types[fuzz_byte(&input) % (sizeof(types) / sizeof(types[0]))];
  char *copy = malloc(input.size > 0 ? input.size : 1); // a sanitizer sees its end
  CHECK(copy != NULL);
  if (input.size > 0)
    memcpy(copy, input.data, input.size);
  arena a;
  arena_init(&a, NULL, 0);
  ProtobufCMessage *message, *again;
  error *e = proto_unpack((slice){copy, input.size}, type, &a, &message);
  if (e == NULL) {
    const slice once = packed(message, &a);
    CHECK(proto_unpack(once, type, &a, &again) == NULL);
    CHECK(slice_equal(once, packed(again, &a)));
  } else {
    CHECK(error_get_code(e) == ERROR_INVALID_ARG && error_message(e)[0] != '\0');
  }
  error_free(e);
  arena_fini(&a);
  free(copy);
  return 0;
}
