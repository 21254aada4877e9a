// The schemas that this listener speaks, as protoc describes them: a serialized FileDescriptorSet,
// put into the program by the build.
#ifndef NEREID_FRONTEND_GRPC_CODEC_DESCRIPTORS_H
#define NEREID_FRONTEND_GRPC_CODEC_DESCRIPTORS_H

#include "base/slice.h"

slice grpc_descriptors(void);

#endif
