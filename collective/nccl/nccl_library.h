// NCCL as a table of functions, opened at run time: neither its header nor the library is needed to
// build or to start. What stands here of its C interface is that of nccl.h 2.14 and later, which
// tests/gpu/nccl_abi_test.cc compares with the header of CUDA builds.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

#include "common/base/status.h"
#include "common/tensor/reduce.h"
#include "common/tensor/types.h"

namespace tandem {

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

// The part of ncclConfig_t that there is from 2.14 on. Later versions read no more of it than
// `size` says, and take their defaults for what `version` did not have.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;  // calls return at once; GetAsyncError says when they have ended
};

// Streams are cudaStream_t, memory is a device's. The calling thread's device must be the
// communicator's when one is made.
struct NcclLibrary {
  // Non-blocking communicators that end by CommAbort whatever they wait for.
  static constexpr int kVersionMin = 21800;
  static constexpr int kVersionGroupAbort = 22200;  // CommAbort in a group

  int version = 0;  // 22809 is 2.28.9

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

// What went wrong: in `what`, of `comm` (nullptr: of none). REQUIRES: result is an error.
Status NcclError(const NcclLibrary& nccl, NcclResult result, const char* what, NcclComm comm);

// "2.28.9"
std::string NcclVersionText(int version);

// Opens `path`; empty: libnccl.so.2 beside the running program, in ../lib, where the loader looks,
// or in /usr/local/cuda. UNAVAILABLE with what is missing: the library, a function, or a newer
// version.
StatusOr<NcclLibrary> OpenNccl(const std::string& path = "");

}  // namespace tandem
