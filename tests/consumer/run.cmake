# Installs the build tree, and builds and runs a user's project against it, outside the source tree. The project's program is the
# example of README.md, which so cannot rot.
# Usage: cmake -DBUILD_DIR=... -DSOURCE_DIR=... -DWORK_DIR=... -P run.cmake
file(REMOVE_RECURSE ${WORK_DIR})
file(MAKE_DIRECTORY ${WORK_DIR}/source)
file(COPY ${SOURCE_DIR}/tests/consumer/CMakeLists.txt DESTINATION ${WORK_DIR}/source)
file(READ ${SOURCE_DIR}/README.md readme)
if(NOT readme MATCHES "```cpp\n([^`]+)```")
  message(FATAL_ERROR "README.md has no C++ example")
endif()
file(WRITE ${WORK_DIR}/source/main.cc "${CMAKE_MATCH_1}")

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed with ${code}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
run(${CMAKE_COMMAND} -S ${WORK_DIR}/source -B ${WORK_DIR}/build -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix
    -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run(${WORK_DIR}/build/consumer)
message("${output}")
if(NOT output MATCHES "step 200  loss 0\\.0[0-9]+  scale 65536")
  message(FATAL_ERROR "The example does not learn xor")
endif()
file(REMOVE_RECURSE ${WORK_DIR})
