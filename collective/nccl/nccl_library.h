// NCCL as a table of functions that are loaded at run time. So Tandem can be built without NCCL's
// header, and can start without the library. The declarations match nccl.h 2.14 and later;
// tests/gpu/nccl_abi_test.cc compares them with the header of CUDA builds.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "common/base/status.h"
#include "common/tensor/reduce.h"
#include "common/tensor/types.h"

namespace tandem::collective {

enum class NcclResult : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
enum class NcclType : int { kU8 = 1, kI32 = 2, kI64 = 4, kF16 = 6, kF32 = 7, kBF16 = 9 };
enum class NcclReduce : int { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };
NcclType NcclTypeOf(DType dtype);
NcclReduce NcclReduceOf(ReduceOp op);

struct NcclUniqueId {
  char bytes[128];
};
using NcclComm = struct NcclCommOpaque*;

// The part of ncclConfig_t that exists since NCCL 2.14. Later versions of NCCL read only the first
// `size` bytes. They use defaults for fields that are newer than `version`.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;  // 0: calls return immediately, and GetAsyncError reports when they have ended
};

// The loaded functions of NCCL. A `stream` is a cudaStream_t. Buffers are device memory. Before a
// thread creates a communicator, it must select the communicator's device.
struct NcclLibrary {
  // The oldest supported version. Since this version CommAbort always ends a non-blocking
  // communicator.
  static constexpr int kVersionMin = 21800;
  // The first version of NCCL that accepts CommAbort in a group call.
  static constexpr int kVersionGroupAbort = 22200;

  int version = 0;  // version of the loaded library; 22809 means 2.28.9

  NcclResult (*GetVersion)(int* version);
  const char* (*GetErrorString)(NcclResult result);
  const char* (*GetLastError)(NcclComm comm);
  NcclResult (*GetUniqueId)(NcclUniqueId* id);
  NcclResult (*CommInitRankConfig)(NcclComm* comm, int size, NcclUniqueId id, int rank,
                                   NcclConfig* config);
  NcclResult (*CommFinalize)(NcclComm comm);
  NcclResult (*CommDestroy)(NcclComm comm);
  NcclResult (*CommAbort)(NcclComm comm);
  NcclResult (*CommGetAsyncError)(NcclComm comm, NcclResult* error);
  NcclResult (*AllReduce)(const void* in, void* out, size_t count, NcclType type, NcclReduce op,
                          NcclComm comm, void* stream);
  NcclResult (*Reduce)(const void* in, void* out, size_t count, NcclType type, NcclReduce op,
                       int root, NcclComm comm, void* stream);
  NcclResult (*Broadcast)(const void* in, void* out, size_t count, NcclType type, int root,
                          NcclComm comm, void* stream);
  NcclResult (*AllGather)(const void* in, void* out, size_t count, NcclType type, NcclComm comm,
                          void* stream);
  NcclResult (*ReduceScatter)(const void* in, void* out, size_t out_count, NcclType type,
                              NcclReduce op, NcclComm comm, void* stream);
  NcclResult (*Send)(const void* in, size_t count, NcclType type, int to, NcclComm comm,
                     void* stream);
  NcclResult (*Recv)(void* out, size_t count, NcclType type, int from, NcclComm comm, void* stream);
  NcclResult (*GroupStart)();
  NcclResult (*GroupEnd)();
};
static_assert(std::is_trivially_copyable_v<NcclUniqueId>);

// Returns an error Status for an NCCL call that failed. `what` names the call; `comm` is its
// communicator, or nullptr if there is none. REQUIRES: `result` is an error.
Status NcclError(const NcclLibrary& nccl, NcclResult result, const char* what, NcclComm comm);

// Returns a version number as text. Example: "2.28.9".
std::string NcclVersionText(int version);

// Loads NCCL from `path`. If `path` is empty, searches libnccl.so.2 in the directory of the running
// program, in ../lib, in the loader's directories and in /usr/local/cuda. UNAVAILABLE: the library
// or a function is missing, or the library is too old; the message names the cause.
StatusOr<NcclLibrary> OpenNccl(const std::string& path = "");

}  // namespace tandem::collective
