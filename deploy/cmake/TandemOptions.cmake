# Language standard, warnings, sanitizers, compiler cache and output directories.
set(TANDEM_CUDA AUTO CACHE STRING "Build the CUDA module: AUTO (when nvcc is found), ON or OFF")
set_property(CACHE TANDEM_CUDA PROPERTY STRINGS AUTO ON OFF)
option(TANDEM_TESTS "Build the tests and benchmarks" ON)
set(TANDEM_SANITIZE "" CACHE STRING "Sanitizers to build with: address, undefined, thread")
set(TANDEM_THREAD_SAFETY OFF CACHE BOOL "Turn clang's thread-safety analysis into errors")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# A unity build compiles up to 12 sources of a room as one (TandemModule.cmake). It takes about a
# third of the time of a build file by file. The presets debug, fuzz and clang-safety compile file by
# file, so each file's own includes stay complete.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(unity_default ON)
else()
  set(unity_default OFF)
endif()
option(TANDEM_UNITY "Compile the sources of a room in groups" ${unity_default})
if(TANDEM_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ takes an included source for a header, whose types must not have members of anonymous types.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>
  $<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers>)
# Results must have the same bits in every mode. So the compiler must not contract a multiply and an
# add into one instruction.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fstack-protector-strong>)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-O2>)
endif()

if(TANDEM_SANITIZE)
  add_compile_options(-fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer -g1)
  # If sanitizer checks are on, g++ 12 warns of uninitialised memory in its own library. It also warns of
  # fences (Asio's) that its thread sanitizer does not model.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-maybe-uninitialized -Wno-restrict -Wno-tsan)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    add_compile_options(-Wno-pass-failed)  # the checks prevent vectorisation
  endif()
  add_link_options(-fsanitize=${TANDEM_SANITIZE})
  if(TANDEM_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(TANDEM_THREAD_SAFETY)
  add_compile_options(-Wthread-safety -Werror=thread-safety)
endif()

find_program(TANDEM_CCACHE ccache)
if(TANDEM_CCACHE)
  # Paths are relative to the source root, so that a second build directory reuses cached results of
  # the first. The sloppiness is what ccache needs for precompiled headers; no source uses __DATE__.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${TANDEM_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
else()
  # The paths that ccache passes to the compiler. So the objects have the same bytes with and without
  # ccache, and in every directory (tests/install/same_bytes_test.py).
  file(RELATIVE_PATH to_source ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=${to_source}>
    $<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${CMAKE_BINARY_DIR}/=>)
endif()
