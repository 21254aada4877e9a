// SPDX-License-Identifier: Apache-2.0
// Handlers of the table of methods (methods.c), except inference (grpc_infer.h).
#ifndef NEREID_FRONTEND_GRPC_SERVICE_HANDLERS_H
#define NEREID_FRONTEND_GRPC_SERVICE_HANDLERS_H

#include "base/buffer.h"
#include "base/error.h"

typedef struct call call;

// Values of method.run; run on the method's thread.
typedef error *control_runner(call *c, const void *request, buffer *json);

// grpc_control.c
control_runner grpc_server_live, grpc_server_ready, grpc_model_ready, grpc_server_metadata,
    grpc_model_metadata, grpc_model_config, grpc_model_statistics;
// grpc_repository.c
control_runner grpc_repository_index, grpc_repository_model_load, grpc_repository_model_unload;
// grpc_shared_memory.c
control_runner grpc_system_shared_memory_status, grpc_system_shared_memory_register,
    grpc_system_shared_memory_unregister, grpc_cuda_shared_memory_status,
    grpc_cuda_shared_memory_register, grpc_cuda_shared_memory_unregister;
// grpc_settings.c
control_runner grpc_trace_setting, grpc_log_settings;
// grpc_health.c
control_runner grpc_health_check;

// Values of method.handle. Loop thread.
void grpc_handle_server_ready(call *c); // grpc_control.c, as the next
void grpc_handle_about_model(call *c);
void grpc_handle_health_watch(call *c); // grpc_health.c
void grpc_handle_reflection(call *c);   // grpc_reflection.c

#endif
