# What `cmake --install build --prefix DIR` puts there: the programs, the C++ client for
# find_package(Tandem), and the Python client.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
install(TARGETS tandem-pserver tandem-trainer tandemrun tandem
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET tandem_cuda)
  install(TARGETS tandem_cuda LIBRARY DESTINATION lib)
endif()

set_target_properties(tandem_pserver_client PROPERTIES EXPORT_NAME client)
install(TARGETS tandem_pserver_client tandem_lane tandem_shm tandem_rpc tandem_tensor tandem_base tandem_grpc tandem_proto
  EXPORT TandemTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/tandem)
# pserver/client/client.h and what it includes. The headers of the installed libraries alone.
foreach(header common/base/check.h common/base/clock.h common/base/status.h common/rpc/channel.h
        common/rpc/endpoint.h common/rpc/identity.h common/rpc/tls_files.h common/tensor/types.h pserver/client/client.h pserver/client/partition.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/${folder})
endforeach()
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tandem)
install(EXPORT TandemTargets NAMESPACE Tandem:: DESTINATION ${cmake_dir})
configure_package_config_file(deploy/cmake/TandemConfig.cmake.in
  ${CMAKE_BINARY_DIR}/gen/TandemConfig.cmake INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gen/TandemConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gen/TandemConfig.cmake
  ${CMAKE_BINARY_DIR}/gen/TandemConfigVersion.cmake DESTINATION ${cmake_dir})

install(DIRECTORY ${CMAKE_BINARY_DIR}/python/tandem_pserver
  DESTINATION lib/python3/dist-packages PATTERN __pycache__ EXCLUDE)
