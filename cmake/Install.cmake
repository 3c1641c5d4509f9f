# cmake --install and find_package(duotone CONFIG).
include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/duotone)
get_property(libraries GLOBAL PROPERTY DUOTONE_LIBRARIES)
install(TARGETS ${libraries} EXPORT duotoneTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT duotoneTargets NAMESPACE duotone:: DESTINATION ${config_dir})
# The public headers: those that duotone/duotone.h reaches, which the consumer test compiles.
set(public_headers checkpoint.h duotone.h graph_builder.h initializers.h ops.h options.h session.h types.h)
list(TRANSFORM public_headers PREPEND ${PROJECT_SOURCE_DIR}/duotone/)
install(FILES ${public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/duotone)
install(FILES ${PROJECT_SOURCE_DIR}/base/dtype.h ${PROJECT_SOURCE_DIR}/base/float16.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/base)
install(TARGETS duotone_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/duotoneConfig.cmake.in
  ${PROJECT_BINARY_DIR}/duotoneConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/duotoneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/duotoneConfig.cmake ${PROJECT_BINARY_DIR}/duotoneConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindOneDNN.cmake DESTINATION ${config_dir})
