// The functions behind the table of methods (methods.c), but for inference (infer.h). Loop threads;
// what may block goes on in a job.
#ifndef NEREID_FRONTEND_GRPC_SERVICE_HANDLERS_H
#define NEREID_FRONTEND_GRPC_SERVICE_HANDLERS_H

typedef struct call call;

// control.c
void grpc_handle_server_live(call *c);
void grpc_handle_server_ready(call *c);
void grpc_handle_model_ready(call *c);
void grpc_handle_server_metadata(call *c);
void grpc_handle_model_metadata(call *c);
void grpc_handle_model_config(call *c);
void grpc_handle_model_statistics(call *c);

// repository.c
void grpc_handle_repository_index(call *c);
void grpc_handle_model_load(call *c);
void grpc_handle_model_unload(call *c);

// shared_memory.c
void grpc_handle_system_memory_status(call *c);
void grpc_handle_system_memory_register(call *c);
void grpc_handle_system_memory_unregister(call *c);
void grpc_handle_cuda_memory_status(call *c);
void grpc_handle_cuda_memory_register(call *c);
void grpc_handle_cuda_memory_unregister(call *c);

// settings.c
void grpc_handle_trace_setting(call *c);
void grpc_handle_log_settings(call *c);

// health.c
void grpc_handle_health_check(call *c);
void grpc_handle_health_watch(call *c);

// reflection.c
void grpc_handle_reflection(call *c);

#endif
