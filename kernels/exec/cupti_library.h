// CUPTI as a table of functions, opened at run time: neither its header nor the library is needed
// to build or to start. What stands here of its C interface is that of cupti_activity.h 12 and
// later, which tests/gpu/cupti_abi_test.cc compares with the header of CUDA builds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem {

using CuptiResult = int;  // 0: success

enum class CuptiKind : int {
  kCopy = 1,
  kFill = 2,
  kDriverCall = 4,
  kRuntimeCall = 5,
  kKernel = 10,  // of those that run beside others too
  kExternalId = 39,
};
inline constexpr int kCuptiOwnIds = 3;         // CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0
inline constexpr uint32_t kCuptiFlushAll = 1;  // what is not complete too

// The beginnings of records; every version of CUPTI adds behind them. Times in ns by CUPTI's clock.
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
  const char* name;  // mangled
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
  // Not success behind the last one.
  CuptiResult (*GetNextRecord)(uint8_t* buffer, size_t used, CuptiRecord** record);
  CuptiResult (*PushId)(int external_kind, uint64_t id);
  CuptiResult (*PopId)(int external_kind, uint64_t* id);
};

// Opens `path`; empty: libcupti.so.13 or .12 beside the running program, in ../lib, where the
// loader looks, or in /usr/local/cuda. UNAVAILABLE with what is missing.
StatusOr<CuptiLibrary> OpenCupti(const std::string& path = "");

}  // namespace tandem
