# Finds everything that Tandem links, once. deploy/packages.txt lists the Debian packages that
# provide it.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED)
find_package(Protobuf 3.21 REQUIRED)
find_package(gRPC 1.51 CONFIG REQUIRED)
find_package(gflags CONFIG REQUIRED)
find_package(glog 0.6 CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(RocksDB 7.8 CONFIG REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS system filesystem)
find_package(prometheus-cpp CONFIG REQUIRED COMPONENTS core)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG 1.6 REQUIRED)
find_package(nlohmann_json 3.11 CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(RDKAFKA REQUIRED IMPORTED_TARGET rdkafka)
# The Python package is for Debian's python3, though another one may come first in PATH.
set(Python_EXECUTABLE /usr/bin/python3)
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(pybind11 2.10 CONFIG REQUIRED)
if(TANDEM_TESTS)
  find_package(GTest 1.12 CONFIG REQUIRED)
  find_package(benchmark 1.7 CONFIG REQUIRED)
endif()

# oneDNN: Debian's CMake config requires OpenCL. Tandem needs only the library.
find_path(TANDEM_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(TANDEM_DNNL_LIBRARY dnnl REQUIRED)
add_library(tandem_dnnl UNKNOWN IMPORTED)
set_target_properties(tandem_dnnl PROPERTIES IMPORTED_LOCATION ${TANDEM_DNNL_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${TANDEM_DNNL_INCLUDE} INTERFACE_LINK_LIBRARIES OpenMP::OpenMP_CXX)

# ONNX: only the definition of its messages.
find_path(TANDEM_ONNX_PROTO onnx/onnx.proto REQUIRED)

# libxsmm compiles small matrix products at plan time. Debian's library is static; it needs dl and
# threads, but no BLAS.
find_path(TANDEM_XSMM_INCLUDE libxsmm.h REQUIRED)
find_library(TANDEM_XSMM_LIBRARY xsmm REQUIRED)
find_library(TANDEM_XSMM_NOBLAS xsmmnoblas REQUIRED)
add_library(tandem_xsmm UNKNOWN IMPORTED)
set_target_properties(tandem_xsmm PROPERTIES IMPORTED_LOCATION ${TANDEM_XSMM_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${TANDEM_XSMM_INCLUDE}
  INTERFACE_LINK_LIBRARIES "${TANDEM_XSMM_NOBLAS};Threads::Threads;${CMAKE_DL_LIBS};m")

# CUDA: nvcc is not always on PATH, and cuDNN is a separate package. Before 9.8, cuDNN cannot make
# graphs for a device from its description.
set(TANDEM_WITH_CUDA OFF)
set(TANDEM_CUDNN_VERSION 0)
if(NOT TANDEM_CUDA STREQUAL "OFF")
  find_program(TANDEM_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(TANDEM_NVCC)
    get_filename_component(cuda_root ${TANDEM_NVCC}/../.. REALPATH)
    find_library(TANDEM_CUDNN cudnn HINTS ${cuda_root}/lib64 ${cuda_root}/lib)
    find_path(TANDEM_CUDNN_INCLUDE cudnn.h HINTS ${cuda_root}/include)
    if(EXISTS ${TANDEM_CUDNN_INCLUDE}/cudnn_version.h)
      file(READ ${TANDEM_CUDNN_INCLUDE}/cudnn_version.h version)
      string(REGEX REPLACE ".*CUDNN_MAJOR ([0-9]+).*CUDNN_MINOR ([0-9]+).*" "\\1.\\2"
        TANDEM_CUDNN_VERSION "${version}")
    endif()
    # Only for a test: the product opens NCCL at run time.
    find_path(TANDEM_NCCL_INCLUDE nccl.h HINTS ${cuda_root}/include)
  endif()
  if(TANDEM_NVCC AND TANDEM_CUDNN AND TANDEM_CUDNN_VERSION VERSION_GREATER_EQUAL 9.8)
    set(TANDEM_WITH_CUDA ON)
    set(CMAKE_CUDA_COMPILER ${TANDEM_NVCC})
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual)
    enable_language(CUDA)
    # CMake 3.25 does not know that this nvcc accepts C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    find_package(CUDAToolkit 12 REQUIRED)
  elseif(TANDEM_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TANDEM_CUDA=ON, but nvcc (${TANDEM_NVCC}) or cuDNN 9.8 or later "
      "(${TANDEM_CUDNN}, version ${TANDEM_CUDNN_VERSION}) was found neither in the usual places nor in "
      "/usr/local/cuda")
  endif()
endif()
if(TANDEM_WITH_CUDA)
  set(built ", built by target tandem_cuda")
endif()
message(STATUS "Tandem: CUDA module ${TANDEM_WITH_CUDA} (TANDEM_CUDA=${TANDEM_CUDA})${built}")
