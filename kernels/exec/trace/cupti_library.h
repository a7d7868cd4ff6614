// CUPTI as a table of functions that is opened at run time. Neither its header nor the library is
// needed to build or start. The declarations are those of cupti_activity.h 12 and later.
// tests/gpu/cupti_abi_test.cc compares them with the header in CUDA builds.
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
  kKernel = 10,  // CONCURRENT_KERNEL: also kernels that run concurrently
  kExternalId = 39,
};
inline constexpr int kCuptiOwnIds = 3;         // CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0
inline constexpr uint32_t kCuptiFlushAll = 1;  // also flush incomplete records

// The first fields of each record. New versions of CUPTI only append fields. Times are in ns of
// CUPTI's clock.
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
  // Does not return success after the last record.
  CuptiResult (*GetNextRecord)(uint8_t* buffer, size_t used, CuptiRecord** record);
  CuptiResult (*PushId)(int external_kind, uint64_t id);
  CuptiResult (*PopId)(int external_kind, uint64_t* id);
};

// Opens the library at `path`. If it is empty: libcupti.so.13 or .12 next to the running program,
// in ../lib, in the loader's search path, or in /usr/local/cuda. UNAVAILABLE: the library or a
// function is missing.
StatusOr<CuptiLibrary> OpenCupti(const std::string& path = "");

}  // namespace tandem
