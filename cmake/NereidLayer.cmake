# SPDX-License-Identifier: Apache-2.0
# The layers of docs/architecture.md, enforced by the compiler.
#
# nereid_layer(NAME DIRECTORY [ROOT root] SOURCES... DEPENDS layers... LINK libraries...) makes the static library nereid_NAME from
# the sources in root/DIRECTORY, where root is src unless given. Its headers are visible as "DIRECTORY/x.h" through a directory that holds one link, so a target sees the headers of
# the layers that it depends on and of no other: an include across a seam does not compile.

function(nereid_layer name directory)
  cmake_parse_arguments(LAYER "" "ROOT" "SOURCES;DEPENDS;LINK" ${ARGN})
  if(NOT LAYER_ROOT)
    set(LAYER_ROOT src)
  endif()
  set(source ${PROJECT_SOURCE_DIR}/${LAYER_ROOT}/${directory})
  set(visible ${CMAKE_BINARY_DIR}/layers/${name})
  get_filename_component(parent ${visible}/${directory} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${source} ${visible}/${directory} SYMBOLIC)
  set(target nereid_${name})
  if(LAYER_SOURCES)
    list(TRANSFORM LAYER_SOURCES PREPEND ${source}/)
    add_library(${target} STATIC ${LAYER_SOURCES})
    target_compile_options(${target} PRIVATE ${nereid_warnings})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${visible})
  foreach(dependency IN LISTS LAYER_DEPENDS)
    target_link_libraries(${target} ${scope} nereid_${dependency})
  endforeach()
  target_link_libraries(${target} ${scope} ${LAYER_LINK} Threads::Threads)
endfunction()

# The public C ABI: what front ends, backends and other people's programs include.
add_library(nereid_abi INTERFACE)
target_include_directories(nereid_abi INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
