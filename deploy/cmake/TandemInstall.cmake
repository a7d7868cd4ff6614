# `cmake --install build --prefix DIR` installs these components: the programs with their service
# files (tandem), the C++ client for find_package(Tandem) (dev), the Python client (python), and the
# CUDA module if it was built (cuda).
# Target tandem_programs builds everything except the module. Each component is a Debian package
# (TandemPackages.cmake), except the CUDA module, because its libraries are not in Debian.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # packages need no tests
install(TARGETS tandem-pserver tandem-trainer tandemrun tandem
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tandem)
# deploy/quickstart.sh does not build the module, which takes minutes.
if(TARGET tandem_cuda)
  install(TARGETS tandem_cuda LIBRARY DESTINATION lib COMPONENT cuda OPTIONAL)
  install(CODE "if(NOT EXISTS \"$<TARGET_FILE:tandem_cuda>\")
    message(\"-- Not built, so not installed: $<TARGET_FILE_NAME:tandem_cuda>; ./deploy/build.sh --target tandem_cuda builds it\")
  endif()" COMPONENT cuda)
endif()
install(FILES deploy/systemd/tandem-pserver@.service deploy/systemd/tandem-trainer@.service
  DESTINATION lib/systemd/system COMPONENT tandem)
install(FILES deploy/systemd/tandem.sysusers DESTINATION lib/sysusers.d RENAME tandem.conf
  COMPONENT tandem)
install(FILES deploy/systemd/pserver.env deploy/systemd/trainer.env
  DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem/systemd COMPONENT tandem)
install(DIRECTORY deploy/examples deploy/monitoring deploy/kubernetes
  DESTINATION ${CMAKE_INSTALL_DATADIR}/tandem COMPONENT tandem)
install(FILES ${CMAKE_BINARY_DIR}/man/tandem.1 ${CMAKE_BINARY_DIR}/man/tandemrun.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tandem)
install(FILES ${CMAKE_BINARY_DIR}/man/tandem-pserver.8 ${CMAKE_BINARY_DIR}/man/tandem-trainer.8
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT tandem)
foreach(program tandem tandemrun tandem-pserver tandem-trainer)
  install(FILES ${CMAKE_BINARY_DIR}/man/completion.bash RENAME ${program}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tandem)
endforeach()
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tandem FILES_MATCHING
  PATTERN *.md PATTERN *.svg PATTERN *.png)

set_target_properties(tandem_pserver_client PROPERTIES EXPORT_NAME client)
install(TARGETS tandem_pserver_client tandem_pserver_client_carrier tandem_pserver_client_job tandem_pserver_client_pushes tandem_pserver_client_placement
    tandem_shm_rpc tandem_shm tandem_codec tandem_rpc tandem_rpc_credentials tandem_tensor tandem_base tandem_os tandem_threads tandem_grpc tandem_proto tandem_tables
  EXPORT TandemTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/tandem COMPONENT dev)
# Installs pserver/client/client.h and the headers that it includes, and no others of the installed
# libraries.
foreach(header common/base/agreement.h common/base/check.h common/base/clock.h common/base/endpoint.h common/base/status.h common/rpc/channel.h common/tables/update_policy.h
        common/rpc/credentials/identity.h common/rpc/pserver_call.h common/rpc/credentials/tls_files.h common/tensor/types.h pserver/client/client.h pserver/client/job/ps_types.h pserver/client/job/table_rows.h pserver/client/carrier/options.h pserver/client/placement/partition.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tandem/${folder} COMPONENT dev)
endforeach()
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Tandem)
install(EXPORT TandemTargets NAMESPACE Tandem:: DESTINATION ${cmake_dir} COMPONENT dev)
configure_package_config_file(deploy/cmake/TandemConfig.cmake.in
  ${CMAKE_BINARY_DIR}/gen/TandemConfig.cmake INSTALL_DESTINATION ${cmake_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gen/TandemConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gen/TandemConfig.cmake
  ${CMAKE_BINARY_DIR}/gen/TandemConfigVersion.cmake DESTINATION ${cmake_dir} COMPONENT dev)

install(DIRECTORY ${CMAKE_BINARY_DIR}/python/tandem_pserver
  DESTINATION lib/python3/dist-packages COMPONENT python PATTERN __pycache__ EXCLUDE)
# deploy/quickstart.sh does not build the module tandem._core.
if(TARGET tandem_core)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/python/tandem DESTINATION lib/python3/dist-packages
    COMPONENT python PATTERN __pycache__ EXCLUDE PATTERN bin EXCLUDE)
endif()

include(TandemPackages)
