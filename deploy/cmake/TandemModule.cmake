# tandem_module(NAME SRCS a.cc b.cc [ALONE c.cc] DEPS tandem_base absl::strings)   one static library
# tandem_program(NAME SRCS main.cc DEPS ...)                          one program in build/bin
# tandem_test(NAME SRCS x_test.cc DEPS ... [LABELS ...])              one gtest binary
#
# If TANDEM_UNITY is on, a module compiles its SRCS in groups of up to 12: each group is a generated
# file that includes them. ALONE lists sources that are compiled one by one: they have options of
# their own, or tests replace them. The paths in a group are relative to the source root, so that
# ccache shares results between directories.
function(tandem_group_sources name out)
  set(result "")
  set(group "")
  set(count 0)
  set(number 0)
  file(RELATIVE_PATH room ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(source ${ARGN} LAST)
    if(source STREQUAL "LAST" OR count EQUAL 12)
      if(count GREATER 0)
        set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_group_${number}.cc)
        file(CONFIGURE OUTPUT ${file} CONTENT "${group}" @ONLY)
        list(APPEND result ${file})
      endif()
      set(group "")
      set(count 0)
      math(EXPR number "${number} + 1")
    endif()
    if(source STREQUAL "LAST")
      break()
    elseif(IS_ABSOLUTE ${source})
      list(APPEND result ${source})  # generated
    else()
      string(APPEND group "#include \"${room}/${source}\"\n")
      math(EXPR count "${count} + 1")
    endif()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

function(tandem_module name)
  cmake_parse_arguments(ARG "" "" "SRCS;ALONE;DEPS;PRIVATE_DEPS" ${ARGN})
  if(TANDEM_UNITY)
    tandem_group_sources(${name} ARG_SRCS ${ARG_SRCS})
  endif()
  add_library(${name} STATIC ${ARG_SRCS} ${ARG_ALONE})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<INSTALL_INTERFACE:include/tandem>)
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS})
endfunction()

function(tandem_program name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

include(TandemTestOrder)

find_program(TANDEM_PYTHON3 python3 PATHS /usr/bin NO_DEFAULT_PATH)
# SHARDS N: ctest runs the cases in N processes at once. This is for programs whose cases mostly wait.
function(tandem_test name)
  cmake_parse_arguments(ARG "" "SHARDS" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(TARGET tandem_test_headers)  # tests/CMakeLists.txt
    target_link_libraries(${name} PRIVATE glog::glog)
    target_compile_options(${name} PRIVATE -O1)
    target_precompile_headers(${name} REUSE_FROM tandem_test_headers)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  # One ctest entry per binary. Listing the cases would run each binary at build time, and a process
  # per case costs more than most cases do.
  if(ARG_SHARDS AND TANDEM_PYTHON3)
    add_test(NAME ${name} COMMAND ${TANDEM_PYTHON3} -B ${CMAKE_SOURCE_DIR}/tests/support/shards.py
      ${ARG_SHARDS} $<TARGET_FILE:${name}>)
  else()
    add_test(NAME ${name} COMMAND ${name})
  endif()
  # The limit ends tests that hang. It is far above the duration of a sanitizer build on a loaded
  # machine.
  set(environment TANDEM_SOURCE_DIR=${CMAKE_SOURCE_DIR} TANDEM_BIN_DIR=${CMAKE_BINARY_DIR}/bin)
  # Tests share the processors, where threads that spin slow each other down. tandemrun itself sets
  # this for the processes of a job, so tests of jobs leave it to tandemrun.
  if(NOT e2e IN_LIST ARG_LABELS)
    list(APPEND environment OMP_WAIT_POLICY=passive)
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS "${ARG_LABELS}"
    ENVIRONMENT "${environment}")
  tandem_test_order(${name})
endfunction()

# tandem_script_test(NAME FILE [PROPERTIES ...]) adds a test in Python. It uses Debian's Python and
# its modules, and gets its settings through tests/support/script.py. The test is skipped if
# something that it needs is missing.
function(tandem_script_test name file)
  if(NOT TANDEM_PYTHON3)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "PROPERTIES" ${ARGN})
  add_test(NAME ${name} COMMAND ${TANDEM_PYTHON3} -B ${CMAKE_CURRENT_SOURCE_DIR}/${file}
    --build=${CMAKE_BINARY_DIR} --source=${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS e2e
    ENVIRONMENT PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/support ${ARG_PROPERTIES})
  tandem_test_order(${name})
endfunction()
