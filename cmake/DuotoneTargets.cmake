# duotone_library, duotone_test: targets with the project's flags.

# Flags of all our own code. Contraction is off because docs/numerics.md promises one rounding per operation.
add_library(duotone_flags INTERFACE)
target_compile_options(duotone_flags INTERFACE
  -Wall -Wextra -Werror -Wno-missing-field-initializers -ffp-contract=off)
if(DUOTONE_SANITIZE)
  target_compile_options(duotone_flags INTERFACE
    -fsanitize=${DUOTONE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(duotone_flags INTERFACE -fsanitize=${DUOTONE_SANITIZE})
endif()
if(DUOTONE_FUZZ)
  # Coverage for libFuzzer in all our own code; the fuzz targets alone link its main program.
  target_compile_options(duotone_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(duotone_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# duotone_library(<folder> SOURCES <files> DEPS <targets> [PUBLIC_DEPS <targets>])
# makes the static library duotone_<folder>, with the source root as include directory.
function(duotone_library folder)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  set(target duotone_${folder})
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(${target} PUBLIC ${ARG_DEPS} PRIVATE $<BUILD_INTERFACE:duotone_flags>)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${folder})
  set_property(GLOBAL APPEND PROPERTY DUOTONE_LIBRARIES ${target})
endfunction()

# duotone_test(<name> SOURCES <files> DEPS <targets> [LABELS <labels>]) makes a GoogleTest binary and registers it with
# ctest, one ctest case per binary: text tests register hundreds of GoogleTest cases.
function(duotone_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main duotone_flags)
  # Tests are compiled once and run for seconds: half the optimisation is half the build.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  # Under the sanitizers g++ 12 takes parts of libstdc++'s <regex> for uninitialised.
  if(DUOTONE_SANITIZE)
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized)
  endif()
  target_compile_definitions(${name} PRIVATE DUOTONE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  if(NOT ARG_LABELS)
    set(ARG_LABELS host)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
endfunction()
