// Takes the file in.
#include "frontend/grpc/codec/descriptors.h"

__asm__(".pushsection .rodata\n"
        ".hidden grpc_descriptor_bytes\n"
        ".globl grpc_descriptor_bytes\n"
        "grpc_descriptor_bytes:\n"
        ".incbin \"" DESCRIPTOR_FILE "\"\n"
        ".hidden grpc_descriptor_end\n"
        ".globl grpc_descriptor_end\n"
        "grpc_descriptor_end:\n"
        ".byte 0\n"
        ".popsection\n");

extern const char grpc_descriptor_bytes[] __attribute__((visibility("hidden")));
extern const char grpc_descriptor_end[] __attribute__((visibility("hidden")));

slice grpc_descriptors(void)
{
  return (slice){grpc_descriptor_bytes, (size_t)(grpc_descriptor_end - grpc_descriptor_bytes)};
}
