// HTTP/2's library, nghttp2, opened when a listener starts: a server without gRPC does not load it.
#ifndef NEREID_FRONTEND_GRPC_HTTP2_H
#define NEREID_FRONTEND_GRPC_HTTP2_H

#include "base/error.h"

#include <nghttp2/nghttp2.h> // IWYU pragma: export

// Functions in use, without "nghttp2_".
#define HTTP2_FUNCTIONS(X)                                                                         \
  X(option_del)                                                                                    \
  X(option_new)                                                                                    \
  X(option_set_max_outbound_ack)                                                                   \
  X(option_set_max_settings)                                                                       \
  X(option_set_no_auto_window_update)                                                              \
  X(option_set_no_closed_streams)                                                                  \
  X(option_set_no_rfc9113_leading_and_trailing_ws_validation)                                      \
  X(option_set_stream_reset_rate_limit)                                                            \
  X(session_callbacks_del)                                                                         \
  X(session_callbacks_new)                                                                         \
  X(session_callbacks_set_data_source_read_length_callback)                                        \
  X(session_callbacks_set_on_begin_frame_callback)                                                 \
  X(session_callbacks_set_on_begin_headers_callback)                                               \
  X(session_callbacks_set_on_data_chunk_recv_callback)                                             \
  X(session_callbacks_set_on_frame_recv_callback)                                                  \
  X(session_callbacks_set_on_frame_send_callback)                                                  \
  X(session_callbacks_set_on_header_callback)                                                      \
  X(session_callbacks_set_on_invalid_frame_recv_callback)                                          \
  X(session_callbacks_set_on_stream_close_callback)                                                \
  X(session_callbacks_set_send_data_callback)                                                      \
  X(session_consume)                                                                               \
  X(session_consume_connection)                                                                    \
  X(session_del)                                                                                   \
  X(session_get_last_proc_stream_id)                                                               \
  X(session_get_stream_user_data)                                                                  \
  X(session_mem_recv)                                                                              \
  X(session_mem_send)                                                                              \
  X(session_resume_data)                                                                           \
  X(session_server_new2)                                                                           \
  X(session_set_local_window_size)                                                                 \
  X(session_set_stream_user_data)                                                                  \
  X(session_terminate_session)                                                                     \
  X(session_want_read)                                                                             \
  X(session_want_write)                                                                            \
  X(strerror)                                                                                      \
  X(submit_goaway)                                                                                 \
  X(submit_ping)                                                                                   \
  X(submit_response)                                                                               \
  X(submit_rst_stream)                                                                             \
  X(submit_settings)                                                                               \
  X(submit_shutdown_notice)                                                                        \
  X(submit_trailer)

typedef struct http2_library {
#define HTTP2_POINTER(name) __typeof__(nghttp2_##name) *name;
  HTTP2_FUNCTIONS(HTTP2_POINTER)
#undef HTTP2_POINTER
} http2_library;

// Complete once http2_load has succeeded.
extern http2_library http2;

// Opens the library, once; by the thread that starts a listener, before its loops run. UNAVAILABLE
// when it is missing or too old.
error *http2_load(void);

#endif
