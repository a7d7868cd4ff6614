// NCCL as a table of functions, loaded at run time: neither its header nor the library is needed to
// build or to start. The declarations here match nccl.h 2.14 and later; tests/gpu/nccl_abi_test.cc
// compares them with the header of CUDA builds.
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

// The part of ncclConfig_t that exists since 2.14. Later versions read only `size` bytes of it, and
// use defaults for fields that `version` did not have.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;  // calls return immediately; GetAsyncError reports their end
};

// Streams are cudaStream_t; memory is a device's. When a thread creates a communicator, its current
// device must be that of the communicator.
struct NcclLibrary {
  // The first version whose non-blocking communicators always end on CommAbort.
  static constexpr int kVersionMin = 21800;
  static constexpr int kVersionGroupAbort = 22200;  // CommAbort in a group

  int version = 0;  // 2.28.9 is 22809

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

// The error of call `what` on `comm` (nullptr: without communicator). REQUIRES that `result` is an
// error.
Status NcclError(const NcclLibrary& nccl, NcclResult result, const char* what, NcclComm comm);

// Example: "2.28.9".
std::string NcclVersionText(int version);

// Loads `path`. If it is empty, searches libnccl.so.2 beside the running program, in ../lib, in the
// loader's directories and in /usr/local/cuda. UNAVAILABLE: the library, a function or a recent
// version is missing; the message names it.
StatusOr<NcclLibrary> OpenNccl(const std::string& path = "");

}  // namespace tandem::collective
