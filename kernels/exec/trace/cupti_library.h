// CUPTI, NVIDIA's library for traces, as a table of functions that is opened at run time. Neither
// its header nor the library is needed to build or start Tandem. The declarations are those of
// cupti_activity.h 12 and later. tests/gpu/cupti_abi_test.cc compares them with the header in CUDA
// builds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem::exec {

using CuptiResult = int;  // result code of a CUPTI function; 0: success

enum class CuptiKind : int {
  kCopy = 1,
  kFill = 2,
  kDriverCall = 4,
  kRuntimeCall = 5,
  // CUPTI's kind CONCURRENT_KERNEL: a record for each kernel, even if kernels run concurrently
  kKernel = 10,
  kExternalId = 39,
};
inline constexpr int kCuptiOwnIds = 3;  // CUPTI's value CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0
inline constexpr uint32_t kCuptiFlushAll = 1;  // flag of FlushAll: also flush incomplete records

// The first fields of each CUPTI record. New versions of CUPTI only append fields to a record.
// Times are in ns of CUPTI's clock.
struct CuptiRecord {
  CuptiKind kind;
};
struct CuptiKernel {
  CuptiKind kind;
  uint8_t caches[2];
  uint16_t registers;
  int partitioned[2];
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3], shared_memory[2];
  uint32_t local_memory[2];
  uint32_t correlation;
  int64_t grid_id;
  const char* name;  // name of the kernel, mangled
};
struct CuptiCopy {
  CuptiKind kind;
  uint8_t kinds[4];
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
};
struct CuptiFill {
  CuptiKind kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
};
struct CuptiExternalId {
  CuptiKind kind;
  int external_kind;
  uint64_t id;
  uint32_t correlation;
};

struct CuptiLibrary {
  using RequestBuffer = void (*)(uint8_t** buffer, size_t* bytes, size_t* records_max);
  using CompleteBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes,
                                  size_t used);

  CuptiResult (*GetResultString)(CuptiResult result, const char** text);
  CuptiResult (*GetTimestamp)(uint64_t* ns);
  CuptiResult (*RegisterCallbacks)(RequestBuffer request, CompleteBuffer complete);
  CuptiResult (*Enable)(CuptiKind kind);
  CuptiResult (*Disable)(CuptiKind kind);
  CuptiResult (*FlushAll)(uint32_t flags);
  // Reads the next record of a buffer. Returns an error code after the last record.
  CuptiResult (*GetNextRecord)(uint8_t* buffer, size_t used, CuptiRecord** record);
  CuptiResult (*PushId)(int external_kind, uint64_t id);
  CuptiResult (*PopId)(int external_kind, uint64_t* id);
};

// Opens CUPTI at `path`. If `path` is empty, searches libcupti.so.13 and .12 next to the running
// program, in ../lib, in the loader's search path and in /usr/local/cuda. UNAVAILABLE: the library
// or a function is missing.
StatusOr<CuptiLibrary> OpenCupti(const std::string& path = "");

}  // namespace tandem::exec
