# SPDX-License-Identifier: Apache-2.0
# Warnings, hardening and sanitizer flags, applied to every target of the project.
# Generated code (protobuf-c) drops the warnings, never the hardening.

include(CheckCCompilerFlag)

set(nereid_warnings
  -Wall -Wextra -Wformat=2 -Wconversion -Wno-sign-conversion -Wimplicit-fallthrough -Wvla -Walloca -Wstrict-prototypes
  -Wmissing-prototypes $<IF:$<C_COMPILER_ID:GNU>,-Wshadow=local,-Wshadow> -Wundef -Wwrite-strings
  -Werror=format-security -Werror=implicit -Werror=incompatible-pointer-types -Werror=int-conversion)
if(NEREID_WERROR)
  list(APPEND nereid_warnings -Werror)
endif()

set(nereid_hardening -fno-delete-null-pointer-checks -fno-strict-overflow -fno-strict-aliasing
  -fno-omit-frame-pointer -pthread)

function(nereid_add_if_supported flag)
  string(MAKE_C_IDENTIFIER "HAVE${flag}" variable)
  check_c_compiler_flag("${flag}" ${variable})
  if(${variable})
    set(nereid_hardening ${nereid_hardening} ${flag} PARENT_SCOPE)
  endif()
endfunction()

# Fuzzing: every layer reports its coverage, and faults stop the run.
if(NEREID_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "NEREID_FUZZ needs Clang (-DCMAKE_C_COMPILER=clang), the compiler is ${CMAKE_C_COMPILER_ID}")
  endif()
  if(NOT NEREID_SANITIZE)
    set(NEREID_SANITIZE address,undefined)
  endif()
  list(APPEND nereid_hardening -fsanitize=fuzzer-no-link)
endif()

# Coverage: each process writes what it executed to LLVM_PROFILE_FILE when it ends; scripts/coverage reads it.
if(NEREID_COVERAGE)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "NEREID_COVERAGE needs Clang (-DCMAKE_C_COMPILER=clang), the compiler is ${CMAKE_C_COMPILER_ID}")
  endif()
  foreach(flag -fprofile-instr-generate -fcoverage-mapping -fprofile-update=atomic)
    list(APPEND nereid_hardening $<$<COMPILE_LANGUAGE:C>:${flag}>)
  endforeach()
  add_link_options($<$<LINK_LANGUAGE:C>:-fprofile-instr-generate>)
endif()

if(NEREID_SANITIZE)
  list(APPEND nereid_hardening -fsanitize=${NEREID_SANITIZE} -fno-sanitize-recover=all)
  # UBSan's own reports cost 300,000 relocations, 40 % of what a start of the server costs. A trap, which ASan tells with its stack, costs nothing.
  # libubsan is linked all the same: it brings libstdc++, without which ASan ends the process when a library that was opened throws an exception.
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NEREID_SANITIZE MATCHES "address.*undefined")
    list(APPEND nereid_hardening -fsanitize-undefined-trap-on-error)
  endif()
  add_link_options(-fsanitize=${NEREID_SANITIZE})
  find_program(NEREID_GOLD ld.gold)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NEREID_GOLD)
    add_link_options(-fuse-ld=gold) # 300 test programs, each linked in a third of the time
  endif()
else()
  list(APPEND nereid_hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong)
  nereid_add_if_supported(-fstack-clash-protection)
  nereid_add_if_supported(-ftrivial-auto-var-init=zero)
  nereid_add_if_supported(-fstrict-flex-arrays=3)
  nereid_add_if_supported(-fzero-init-padding-bits=all)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    nereid_add_if_supported(-fcf-protection=full)
  else()
    nereid_add_if_supported(-mbranch-protection=standard)
  endif()
  add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack,--as-needed)
endif()

add_compile_definitions(_GNU_SOURCE)
add_compile_options(${nereid_hardening})

if(NEREID_SANITIZE)
  add_library(nereid_sanitizer_options OBJECT ${PROJECT_SOURCE_DIR}/tests/sanitizer_options.c)
  target_compile_options(nereid_sanitizer_options PRIVATE -fno-sanitize=all) # it is called before they are set up
  link_libraries($<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:$<TARGET_OBJECTS:nereid_sanitizer_options>>)
endif()
