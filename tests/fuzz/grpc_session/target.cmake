# SPDX-License-Identifier: Apache-2.0
# Sessions of gRPC clients: the target and two unit tests are in several files, and have a server with models behind it, whose directories lie in the build tree.
set(session_directory ${CMAKE_CURRENT_BINARY_DIR}/grpc_session)
file(MAKE_DIRECTORY ${session_directory}/backends)
foreach(model identity held loose)
  file(MAKE_DIRECTORY ${session_directory}/models/${model}/1)
  configure_file(grpc_session/models/${model}/config.pbtxt ${session_directory}/models/${model}/config.pbtxt COPYONLY)
endforeach()
file(CREATE_LINK ${CMAKE_BINARY_DIR}/backends/identity ${session_directory}/backends/identity SYMBOLIC)
file(CREATE_LINK ${CMAKE_BINARY_DIR}/test-backends/held ${session_directory}/backends/held SYMBOLIC)

nereid_fuzz_target(grpc_session THREADS LAYERS grpc LINK tritonserver ${CMAKE_DL_LIBS})
foreach(target grpc_session_replay grpc_session_fuzz grpc_work_test grpc_turn_test)
  if(TARGET ${target})
    target_sources(${target} PRIVATE grpc_session/client.c grpc_session/core.c grpc_session/listener.c grpc_session/replies.c)
    target_compile_definitions(${target} PRIVATE
      CORE_MODELS="${session_directory}/models" CORE_BACKENDS="${session_directory}/backends")
    add_dependencies(${target} nereid_backend_identity triton_held)
  endif()
endforeach()
