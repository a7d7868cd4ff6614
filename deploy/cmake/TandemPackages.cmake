# Debian packages. cpack -G DEB --config build/CPackConfig.cmake -B DIR writes to DIR
#   tandem           the programs, units, manifests, examples, monitoring, docs
#   libtandem-dev    the C++ client, for find_package(Tandem)
#   python3-tandem   the Python packages tandem and tandem_pserver
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tandem)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Tandem's maintainers <tandem@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL tandem dev python)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

set(CPACK_DEBIAN_TANDEM_PACKAGE_NAME tandem)
set(CPACK_DEBIAN_TANDEM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TANDEM_PACKAGE_SUGGESTS "prometheus, dataset-fashion-mnist")
set(CPACK_DEBIAN_TANDEM_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/tandem/postinst)
set(CPACK_DEBIAN_TANDEM_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENT_TANDEM_DESCRIPTION "Trains neural networks with parameter servers or allreduce
 tandemrun starts jobs; tandem-pserver and tandem-trainer are their daemons; tandem looks after them.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libtandem-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libabsl-dev, libgoogle-glog-dev, libgrpc++-dev, libisal-dev, libprotobuf-dev, libssl-dev, pkg-config, prometheus-cpp-dev")
set(CPACK_COMPONENT_DEV_DESCRIPTION "C++ client of Tandem's parameter servers
 find_package(Tandem) gives Tandem::client.")

set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-tandem)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
# The module of the package tandem is for one version of Python.
math(EXPR next_python "${Python_VERSION_MINOR} + 1")
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS
  "python3 (>= ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}~), python3 (<< ${Python_VERSION_MAJOR}.${next_python}~), python3-grpcio, python3-numpy, python3-protobuf")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS tandem)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_EXTRA
  ${CMAKE_SOURCE_DIR}/deploy/debian/python3-tandem/prerm)
set(CPACK_DEBIAN_PYTHON_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENT_PYTHON_DESCRIPTION "Networks and clients of Tandem in Python
 The package tandem builds and trains networks; tandem_pserver is the client of parameter servers.")
include(CPack)
